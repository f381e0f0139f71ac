"""Does joining pay? A newcomer with few sentences of its own, alone and with a received model."""
