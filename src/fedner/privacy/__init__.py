"""Differential privacy and what it costs: mechanisms, clipping, noise, accountants, ledger.

Importing computes nothing; `fedner.privacy.plan` is for everybody, the modules are fedner's own.

>>> import fedner
>>> numbers = {"examples": 1000, "batch_size": 100, "epochs": 2, "delta": 1e-4}
>>> spent = fedner.privacy.plan(noise_multiplier=2.0, **numbers)
>>> spent.steps
20
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedner.privacy.planning import plan

__all__ = ["plan"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fedner.privacy.planning import plan

    return plan
