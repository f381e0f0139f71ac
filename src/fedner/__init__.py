"""Federated named-entity recognition: platforms train together, every text stays at home."""
