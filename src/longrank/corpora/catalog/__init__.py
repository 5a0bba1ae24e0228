"""One source of collections a module."""
