"""Attacks on what a platform transmits, each tried on a leak that was planted for it."""
