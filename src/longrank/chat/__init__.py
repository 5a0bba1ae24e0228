"""Chat models behind one protocol, a scripted one for tests, and a cache of replies on disk."""
