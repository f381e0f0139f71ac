"""Homes: the folder that each party of a federation keeps, and where everything in it stands.

A home belongs to one party alone (mode 0700), and can be moved. Nothing of it is taken from the
user's home folder: FLARE gets `home` inside the home as HOME.
"""

from dataclasses import dataclass
from pathlib import Path

from fedner.durable import owner_folder
from fedner.errors import FednerError

FLARE_FOLDERS = ("startup", "local", "transfer")


@dataclass(frozen=True, slots=True)
class AdminKit:
    """An identity that talks to the server: the coordinator's own, or the watchdog's.

    Attributes:
        kit: A FLARE admin kit: `startup/` and `local/`.
        name: The e-mail address in its certificate.
    """

    kit: Path
    name: str

    @property
    def startup(self) -> Path:
        """The folder with keys and certificates."""
        return self.kit / "startup"

    @property
    def key(self) -> Path:
        """The private key."""
        return self.startup / "client.key"

    @property
    def certificate(self) -> Path:
        """The certificate."""
        return self.startup / "client.crt"

    @property
    def authority(self) -> Path:
        """The authority's certificate."""
        return self.startup / "rootCA.pem"


COORDINATOR = "coordinator@fedner.local"
WATCHDOG = "watchdog@fedner.local"


@dataclass(frozen=True, slots=True)
class FederationHome:
    """The coordinator's folder: study, certificate authority, roster, own identity."""

    path: Path

    @property
    def record(self) -> Path:
        """What the federation is: name, server, study; the roster of all who were approved."""
        return self.path / "federation.json"

    @property
    def study(self) -> Path:
        """The study, as it was given."""
        return self.path / "study.json"

    @property
    def authority_key(self) -> Path:
        """The authority's private key: whoever holds it decides who takes part."""
        return self.path / "authority" / "authority.key"

    @property
    def authority(self) -> Path:
        """The authority's certificate."""
        return self.path / "authority" / "authority.crt"

    @property
    def admin(self) -> AdminKit:
        """The coordinator's identity."""
        return AdminKit(self.path / "coordinator", COORDINATOR)


@dataclass(frozen=True, slots=True)
class InstalledHome:
    """What the homes of server and platforms have: an identity, FLARE's workspace, runs, logs."""

    path: Path

    @property
    def approval(self) -> Path:
        """The approval that was installed: federation, server, study, roster."""
        return self.path / "approval.json"

    @property
    def workspace(self) -> Path:
        """FLARE's workspace, with `startup/` and `local/`."""
        return self.path / "flare"

    @property
    def startup(self) -> Path:
        """The folder with keys and certificates."""
        return self.workspace / "startup"

    @property
    def authority(self) -> Path:
        """The authority's certificate."""
        return self.startup / "rootCA.pem"

    @property
    def runs(self) -> Path:
        """One folder for each run."""
        return self.path / "runs"

    @property
    def user(self) -> Path:
        """HOME of FLARE's processes."""
        return self.path / "home"

    @property
    def logs(self) -> Path:
        """The rotating log files of the command."""
        return self.path / "logs"


@dataclass(frozen=True, slots=True)
class ServerHome(InstalledHome):
    """The server's folder, with the watchdog's identity and what FLARE keeps of all jobs."""

    @property
    def record(self) -> Path:
        """Whose home this is."""
        return self.path / "server.json"

    @property
    def key(self) -> Path:
        """The private key."""
        return self.startup / "server.key"

    @property
    def certificate(self) -> Path:
        """The certificate."""
        return self.startup / "server.crt"

    @property
    def watchdog(self) -> AdminKit:
        """The identity of the watchdog."""
        return AdminKit(self.path / "watchdog", WATCHDOG)

    @property
    def jobs(self) -> Path:
        """Where FLARE keeps the jobs."""
        return self.path / "jobs"

    @property
    def snapshots(self) -> Path:
        """Where FLARE keeps its snapshots."""
        return self.path / "snapshots"

    @property
    def removed(self) -> Path:
        """FLARE's list of the platforms that the server refuses."""
        return self.workspace / "disabled_clients.json"


@dataclass(frozen=True, slots=True)
class PlatformHome(InstalledHome):
    """A platform's folder, with what it knows of others."""

    @property
    def record(self) -> Path:
        """Whose home this is."""
        return self.path / "platform.json"

    @property
    def key(self) -> Path:
        """The private key."""
        return self.startup / "client.key"

    @property
    def certificate(self) -> Path:
        """The certificate."""
        return self.startup / "client.crt"

    @property
    def pins(self) -> Path:
        """The fingerprints of other platforms that this one was told out of band."""
        return self.path / "pins.json"


def begin_home(path: Path) -> None:
    """Make the folder of a home, which must be empty or not there.

    Raises:
        FednerError: Something is there already.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FednerError(
            f"{path} is already there and not an empty folder",
            "Name another folder with --home, or remove this one if nobody needs it.",
        )
    owner_folder(path)
    path.chmod(0o700)


def make_flare_folders(home: InstalledHome) -> None:
    """Make the folders that FLARE works in, for the owner alone."""
    for folder in (*(home.workspace / name for name in FLARE_FOLDERS), home.runs, home.user):
        owner_folder(folder)
    owner_folder(home.logs)
