"""All homes of a federation on one machine, made by the same steps as between machines."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from fedner.durable import owner_folder
from fedner.runs.deployment.approvals import Request, read_request, write_letter
from fedner.runs.deployment.federation import (
    CERTIFICATE_DAYS,
    approve,
    create_federation,
    federation_name,
)
from fedner.runs.deployment.homes import FederationHome, PlatformHome, ServerHome
from fedner.runs.deployment.kits import Place
from fedner.runs.deployment.taking_part import (
    install_platform,
    install_server,
    request_platform,
    request_server,
)
from fedner.settings import Study

LOOPBACK = "localhost"  # FLARE then listens on this machine only


@dataclass(frozen=True, slots=True)
class Homes:
    """All homes of a federation on one machine."""

    federation: FederationHome
    server: ServerHome
    platforms: dict[str, PlatformHome]


def trial_homes(folder: Path, study: Study, names: Sequence[str], port: int) -> Homes:
    """Make the homes of a federation on this machine: request, approve, install for everyone.

    Args:
        folder: Where the homes shall stand: `federation`, `server` and `platforms/NAME`.
        study: What they train.
        names: The platforms that get a home.
        port: The server's port on loopback.
    """
    owner_folder(folder)
    homes = Homes(
        FederationHome(folder / "federation"),
        ServerHome(folder / "server"),
        {name: PlatformHome(folder / "platforms" / name) for name in names},
    )
    place = Place(federation_name(study.title), LOOPBACK, port)
    create_federation(homes.federation, study, place)
    install_here(homes.federation, homes.server, request_server(homes.server, LOOPBACK))
    for name, home in homes.platforms.items():
        install_here(homes.federation, home, request_platform(home, name))
    return homes


def install_here(
    federation: FederationHome,
    home: ServerHome | PlatformHome,
    request: Request,
    days: int = CERTIFICATE_DAYS,
) -> None:
    """Approve and install a request of this very machine, through files as between machines."""
    with TemporaryDirectory(dir=federation.path) as passing:
        asked, answered = Path(passing, "request.json"), Path(passing, "approval.json")
        write_letter(asked, request)
        write_letter(answered, approve(federation, read_request(asked), days))
        if isinstance(home, ServerHome):
            install_server(home, answered)
        else:
            install_platform(home, answered)
