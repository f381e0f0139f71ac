"""The arithmetic of exact per-unit gradients that all layers share: norms first, then one sum."""
