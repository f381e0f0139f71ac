"""Encrypted sums: CKKS keys, ciphertexts and their parameters, on `tenseal` (an extra)."""
