"""How much a removal leaves: taggers local-only and joined, beside Presidio's analyzer."""
