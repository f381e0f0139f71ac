"""The phases of an encrypted round, and the name under which ciphertexts travel."""

ANNOUNCE, HAND_OVER, ENCRYPT, APPLY, COMPARE, SETTLE = range(1, 7)
CIPHERTEXTS = "ciphertexts"
