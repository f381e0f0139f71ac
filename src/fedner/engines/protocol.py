"""The engine protocol, where engines look for it; it is defined beside the round loop."""

from fedner.federated.engine import Engine

__all__ = ["Engine"]
