"""One file per annotation format."""
