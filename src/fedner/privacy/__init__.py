"""Differential privacy: clipping, noise, sampling, accounting and the platform's ledger."""
