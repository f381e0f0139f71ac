"""Sessions with a federation's server: of the coordinator, and of a platform that only fetches."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fedner.engines.flare.session import AdminKit, AdminSession, admin_session
from fedner.errors import FednerError
from fedner.runs.deployment import homes
from fedner.runs.deployment.federation import read_federation
from fedner.runs.deployment.homes import FederationHome, PlatformHome
from fedner.runs.deployment.kits import Place, write_admin_kit
from fedner.runs.deployment.taking_part import installed, read_home

_CONNECT_SECONDS = 10.0


@contextmanager
def coordinator_session(home: FederationHome) -> Iterator[AdminSession]:
    """Open a session with the coordinator's identity, and close it.

    Raises:
        FednerError: It is no folder of a federation, or the server cannot be reached.
    """
    require_reachable(read_federation(home).place)
    with admin_session(AdminKit(home.admin.kit, home.admin.name)) as session:
        yield session


@contextmanager
def platform_session(home: PlatformHome) -> Iterator[AdminSession]:
    """Open a session with a platform's own identity, and close it.

    Its certificate has no role: of all commands of the server it may only ask for the released
    model. The key is not copied.

    Raises:
        FednerError: The home is not installed, or the server cannot be reached.
    """
    place = installed(home).place
    require_reachable(place)
    with TemporaryDirectory(prefix=".session-", dir=home.path) as folder:
        kit = homes.AdminKit(Path(folder), read_home(home).name)
        write_admin_kit(kit, place)
        for link, target in (
            (kit.key, home.key),
            (kit.certificate, home.certificate),
            (kit.authority, home.authority),
        ):
            link.symlink_to(target.resolve())
        with admin_session(AdminKit(kit.kit, kit.name)) as session:
            yield session


def require_reachable(place: Place) -> None:
    """Refuse at once where nobody listens: FLARE's session would go on trying in the background.

    Raises:
        FednerError: Nobody does.
    """
    try:
        socket.create_connection((place.host, place.port), _CONNECT_SECONDS).close()
    except OSError as error:
        raise FednerError(
            f"{place.target} cannot be reached: {error.strerror or error}",
            f"Is the server running? On {place.host}: fedner server start",
        ) from error
