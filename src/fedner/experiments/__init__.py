"""Studies: what stands in the docs, each from one command."""
