"""Ports that nobody takes between the moment in which they are chosen and that in which they serve.

The kernel gives ports above 32768 to every connection that is opened; these are below, and each of
the processes that run tests side by side has some of its own.
"""

import itertools
import os
import socket

_FIRST, _LAST, _OF_ONE = 20_000, 32_000, 400
_NUM_PARTS = (_LAST - _FIRST) // _OF_ONE
_numbers = itertools.count()


def free_port() -> int:
    """Return a port that no other test gets, and that nobody listens on."""
    part = _FIRST + os.getpid() % _NUM_PARTS * _OF_ONE
    for _ in range(_OF_ONE):
        port = part + next(_numbers) % _OF_ONE
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port among {_OF_ONE} from {part}")
