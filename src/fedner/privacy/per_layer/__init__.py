"""Exact per-unit gradients, one file for each kind of layer: norms first, then one weighted sum."""
