"""A federation across machines: who takes part, with which keys, from which folders."""
