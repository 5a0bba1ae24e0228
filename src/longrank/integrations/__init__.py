"""Our rankers in other people's frameworks: one thin file each, importing the framework only when it is imported.

Here a class may inherit from a foreign one, because that is how these frameworks know their parts.
"""
