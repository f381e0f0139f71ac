"""Joining later: a platform receives a shared model, fine-tunes it at home, and sends nothing."""
