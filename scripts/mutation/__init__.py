"""Mutation testing: break one line of a guarantee, and see whether a test notices."""
