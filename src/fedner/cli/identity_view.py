"""What the commands of platforms and servers show of a home and of a new request."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from fedner.runs.deployment.approvals import Approval, Request
    from fedner.runs.deployment.homes import PlatformHome, ServerHome
    from fedner.runs.deployment.study_changes import Change


def require_flare() -> None:
    """Refuse to go on where FLARE is not installed.

    Raises:
        FednerError: It is not.
    """
    from importlib.util import find_spec

    from fedner.errors import FednerError

    missing = [name for name in ("nvflare", "cryptography") if find_spec(name) is None]
    if missing:
        raise FednerError(
            f"a federation across machines needs {' and '.join(missing)}, which cannot be found",
            "Install it with: pip install 'fedner[flare]'",
        )


def write_request(request: "Request", home: Path, out: Path | None, *, as_json: bool) -> None:
    """Write a request and say what to do with it."""
    from fedner.cli.output import show_json, show_place
    from fedner.runs.deployment.approvals import write_letter
    from fedner.runs.deployment.identity import fingerprint
    from fedner.runs.deployment.pins import spoken

    target = Path(f"{request.name}.request.json") if out is None else out
    write_letter(target, request)
    found = fingerprint(request.certificates[0].read(str(target)))
    if as_json:
        show_json({"name": request.name, "fingerprint": found, "request": target, "home": home})
        return
    show_place("home", home, ": its key stays there")
    show_place("request written to", target, ": send it to the coordinator")
    show_place("fingerprint", spoken(found))


def show_installed(
    approval: "Approval",
    home: Path,
    next_step: str,
    changes: Sequence["Change"] = (),
    *,
    as_json: bool,
) -> None:
    """Say what was installed, and what changed in the study that was installed before."""
    from fedner.cli.output import show_json, show_place
    from fedner.runs.deployment.identity import fingerprint, read_certificate
    from fedner.runs.deployment.pins import spoken
    from fedner.settings import Study

    authority = fingerprint(read_certificate(approval.authority, "the approval"))
    study = Study.model_validate_json(approval.study)
    if as_json:
        show_json(
            {
                "name": approval.name,
                "federation": approval.federation,
                "server": approval.place.target,
                "study": study.digest,
                "authority": authority,
                "home": home,
                "changes": changes,
            }
        )
        return
    show_place("installed in", home)
    show_place("federation", approval.federation, f", server {approval.place.target}")
    show_place("study", study.digest, f": {', '.join(study.names)}")
    for each in changes:
        show_place("  changed", each)
    show_place("authority", spoken(authority))
    typer.echo(f"compare the authority with the coordinator by telephone, then: {next_step}")


def home_facts(home: "PlatformHome | ServerHome") -> dict[str, Any]:
    """Return what a home is, for people and machines."""
    from fedner.runs.deployment.expiry import expiry
    from fedner.runs.deployment.identity import fingerprint, read_certificate, read_key
    from fedner.runs.deployment.taking_part import installed, read_home
    from fedner.settings import Study

    facts: dict[str, Any] = {
        "name": read_home(home).name,
        "fingerprint": fingerprint(read_key(home.key)),
        "installed": home.approval.is_file(),
    }
    if not home.approval.is_file():
        return facts
    approval = installed(home)
    certificate = read_certificate(home.certificate.read_text("ascii"), str(home.certificate))
    found = expiry(certificate.not_valid_after_utc)
    return facts | {
        "federation": approval.federation,
        "server": approval.place.target,
        "study": Study.model_validate_json(approval.study).digest,
        "authority": fingerprint(read_certificate(approval.authority, str(home.approval))),
        "certificate_ends": found.words,
        "days_left": found.days,
    }


def show_facts(facts: dict[str, Any]) -> None:
    """Print what a home is, fingerprints in groups that can be read aloud."""
    from fedner.cli.output import show_place
    from fedner.runs.deployment.pins import spoken

    for key, value in facts.items():
        if key in ("fingerprint", "authority"):
            value = spoken(value)
        if not isinstance(value, dict):
            show_place(f"{key.replace('_', ' ')}:", value)
