"""Rank long documents, and know whether a ranker reads them to the end."""

__version__ = "0.1.0"
