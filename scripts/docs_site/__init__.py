"""What `make docs` does beside MkDocs: pages for commands, sources and notebooks."""
