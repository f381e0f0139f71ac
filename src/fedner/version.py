"""The version of this release, where every room can read it."""

__version__ = "0.1.0"
