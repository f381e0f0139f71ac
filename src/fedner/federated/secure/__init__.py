"""The parts of a secure sum (`federated.secure_sum`): keys, shares, masks, lists, both sides."""
