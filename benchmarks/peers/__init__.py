"""Benchmarks beside peers that need an environment of their own: see the Makefile."""
