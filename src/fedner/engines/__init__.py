"""Engines: what runs platforms and carries messages, behind one protocol."""
