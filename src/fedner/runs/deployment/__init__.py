"""A study across machines: what runs at the server, at every platform, and beside them."""
