"""Runs: a federation assembled from its settings, trained, scored, reported and used."""
