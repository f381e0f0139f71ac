"""Whether a server listens on its port, or a platform is connected to one. Exit code 0: yes.

    python healthy.py listens|connected|either PORT

It reads the kernel's table of connections and opens none: a server logs whoever connects to it.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
ESTABLISHED, LISTEN = "01", "0A"


def connections(tables: tuple[Path, ...] = TABLES) -> Iterator[tuple[int, int, str]]:
    """Yield own port, port of the other side, and state of every TCP connection."""
    for table in tables:
        if not table.exists():  # a kernel without IPv6
            continue
        for line in table.read_text("ascii").splitlines()[1:]:
            _, own, other, state = line.split()[:4]
            yield int(own.rpartition(":")[2], 16), int(other.rpartition(":")[2], 16), state


def is_healthy(wanted: str, port: int, tables: tuple[Path, ...] = TABLES) -> bool:
    """Return whether what is wanted of a port is the case."""
    known = set(connections(tables))
    listens = any(own == port and state == LISTEN for own, _, state in known)
    connected = any(other == port and state == ESTABLISHED for _, other, state in known)
    return {"listens": listens, "connected": connected, "either": listens or connected}[wanted]


if __name__ == "__main__":
    sys.exit(not is_healthy(sys.argv[1], int(sys.argv[2])))
