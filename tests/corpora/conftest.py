"""Property tests here touch the disk, whose speed is no property."""

from hypothesis import settings

settings.register_profile("disk", deadline=None)
settings.load_profile("disk")
