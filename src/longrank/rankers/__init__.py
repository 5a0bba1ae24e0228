"""Everything that scores a document for a query; start reading in ``zoo.py``."""
