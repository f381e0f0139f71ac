"""Lets a platform try again soon where its server was away.

FLARE waits twice as long after every attempt, up to ten seconds: a server that is back would wait
as long for its platforms.
"""

MOST_SECONDS = 2


def reconnect_soon() -> None:
    """Shorten the longest wait between two attempts of this process."""
    from nvflare.fuel.f3.sfm import conn_manager

    conn_manager.MAX_WAIT = MOST_SECONDS
