"""Federated named-entity recognition: platforms train together, every text stays at home."""

__version__ = "0.1.0"
