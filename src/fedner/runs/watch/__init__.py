"""A run as it grows: its files are read as they are written, and shown as curves."""
