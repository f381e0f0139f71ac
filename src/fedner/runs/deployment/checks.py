"""`fedner platform check`: all that can be wrong before anything is trained, found together.

Every check looks at one thing and says what it found. Nothing is trained and nothing is kept. What
leaves the platform is a TLS handshake and one question: whether the server admits it.
"""

import logging
import os
import shutil
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

from fedner.errors import FednerError
from fedner.runs.deployment.approvals import Approval, verified_roster
from fedner.runs.deployment.certificate_check import Check, check_certificate
from fedner.runs.deployment.clock import is_synchronised
from fedner.runs.deployment.homes import PlatformHome
from fedner.runs.deployment.identity import (
    read_certificate,
)
from fedner.runs.deployment.kits import Place
from fedner.runs.deployment.pins import pin_problems, read_pins, roster_fingerprints
from fedner.runs.deployment.taking_part import installed, read_home
from fedner.runs.platform_file import read_platform
from fedner.runs.policy import job_problems, most_answers
from fedner.runs.study_checks import platform_problems, text_findings
from fedner.settings import PlatformSettings, SettingProblem, Study

LEAST_FREE_BYTES = 500_000_000
ENOUGH_FREE_BYTES = 5_000_000_000
_CONNECT_SECONDS = 10.0
_REFUSAL_SECONDS = 1.0  # a server that does not want us says so at once
_CLOCK_SLACK = timedelta(minutes=10)
_OF_POLICY = ("policy", "budget", "ledger", "name")
_OF_LABELS = ("labels", "label_map", "types")


def check_platform(
    home: PlatformHome,
    settings: Path | None = None,
    roster: Path | None = None,
    *,
    measures_link: bool = False,
) -> list[Check]:
    """Look at everything that a platform needs before anything is trained.

    Args:
        home: The platform's home.
        settings: Its own settings; without them data, labels and policy are not looked at.
        roster: A newer roster than that of the approval.
        measures_link: Whether the link to the server is measured, in a session with it.
    """
    found = [*_guarded("home", lambda: _check_home(home))]
    try:
        approval = installed(home)
    except FednerError as error:
        return [*found, _problem("approval", error)]
    study = Study.model_validate_json(approval.study)
    found += _guarded("certificate", lambda: check_certificate(home))
    found += _guarded("clock", lambda: _check_clock(approval))
    found += _guarded("connection", lambda: check_connection(home, approval.place))
    if found[-1].result == "ok":
        found += _guarded("membership", lambda: _check_membership(home))
    if measures_link and found[-1].result == "ok":
        found += _guarded("link", lambda: _check_link(home, study))
    if settings is not None:
        found += _guarded("settings", lambda: _check_settings(home, study, settings))
    found += _guarded("pins", lambda: _check_pins(home, approval, study, roster, settings))
    found += _guarded("disk", lambda: _check_disk(home.path))
    return found


def _check_membership(home: PlatformHome) -> Iterator[Check]:
    """Ask the server whether it admits the platform: a removed one has a valid certificate."""
    from fedner.runs.deployment.link import ask_nothing
    from fedner.runs.deployment.sessions import platform_session

    with _quiet(), platform_session(home) as session:
        ask_nothing(session)
    yield Check("membership", "ok", f"the server admits {read_home(home).name}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Hold back what FLARE logs and its traces: the check says in words what it found."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stderr(StringIO()):
            yield
    finally:
        logging.disable(before)


def _check_link(home: PlatformHome, study: Study) -> Iterator[Check]:
    from fedner.runs.deployment.link import estimate, measure_link
    from fedner.runs.deployment.sessions import platform_session

    with _quiet(), platform_session(home) as session:
        link = measure_link(session)
    yield Check("link", "ok", link.words)
    try:
        yield Check("link", "ok", f"the installed study: {estimate(study, link).words}")
    except FednerError as error:
        yield Check("link", "warning", f"no estimate of the time: {error.message}", error.hint)


def _guarded(subject: str, look: Callable[[], Iterable[Check]]) -> list[Check]:
    found: list[Check] = []
    try:
        found.extend(look())
    except FednerError as error:
        found.append(_problem(subject, error))
    return found


def _problem(subject: str, error: FednerError) -> Check:
    return Check(subject, "problem", error.message, error.hint)


def _check_home(home: PlatformHome) -> Iterator[Check]:
    name = read_home(home).name
    mode = home.path.stat().st_mode & 0o777
    if os.name == "posix" and mode & 0o077:
        hint = f"Let only yourself read it: chmod 700 {home.path}"
        yield Check("home", "problem", f"{home.path} is open to others (mode {mode:04o})", hint)
    else:
        yield Check("home", "ok", f"{home.path} of {name}")


def _check_clock(approval: Approval) -> Iterator[Check]:
    """Look at the clock: certificates depend on it; nobody else's clock can be asked."""
    now = datetime.now(UTC)
    certificate = read_certificate(approval.certificates["platform"], "the approval")
    latest = max(each.approved for each in approval.roster)
    set_it = "Set the clock of this machine, and keep it set (NTP)."
    if now < max(latest - _CLOCK_SLACK, certificate.not_valid_before_utc):
        found = f"{now:%Y-%m-%d %H:%M} UTC is before the approval of {latest:%Y-%m-%d %H:%M}"
        yield Check("clock", "problem", found, set_it)
    elif is_synchronised() is False:
        found = f"{now:%Y-%m-%d %H:%M} UTC; the system says that its clock is not synchronised"
        yield Check("clock", "warning", found, set_it)
    else:
        yield Check("clock", "ok", f"{now:%Y-%m-%d %H:%M} UTC")


def check_connection(home: PlatformHome, place: Place) -> Iterator[Check]:
    """Connect to the server as FLARE does, with both certificates, and say no word."""
    hint = "Is the server running (fedner server start), and does the firewall let you reach it?"
    try:
        plain = socket.create_connection((place.host, place.port), _CONNECT_SECONDS)
    except OSError as error:
        found = f"{place.target} cannot be reached: {error.strerror or error}"
        yield Check("connection", "problem", found, hint)
        return
    with plain:
        yield _handshake(home, place, plain)


def _handshake(home: PlatformHome, place: Place, plain: socket.socket) -> Check:
    context = ssl.create_default_context(cafile=str(home.authority))
    context.load_cert_chain(home.certificate, home.key)
    try:
        with context.wrap_socket(plain, server_hostname=place.host) as secure:
            secure.settimeout(_REFUSAL_SECONDS)
            try:
                closed = secure.recv(1) == b""
            except TimeoutError:
                closed = False
            version = secure.version()
    except ssl.SSLCertVerificationError as error:
        found = f"what answers at {place.target} is not this federation's server: "
        hint = "Ask the coordinator for the right host and port; do not trust this one."
        return Check("connection", "problem", found + error.verify_message, hint)
    except OSError as error:
        closed, version = True, str(error)
    if closed:
        found = f"{place.target} ended the connection ({version})"
        hint = "It did not accept the certificate: ask the coordinator whether it was renewed."
        return Check("connection", "problem", found, hint)
    return Check("connection", "ok", f"{place.target}, {version} with both certificates")


def _check_settings(home: PlatformHome, study: Study, path: Path) -> Iterator[Check]:
    own = read_platform(path)
    name = read_home(home).name
    if own.name != name:
        yield Check(
            "settings",
            "problem",
            f"{path} is for {own.name!r}, but the home is that of {name!r}",
            f'Set name = "{name}" in {path}, or name another home.',
        )
        return
    yield Check("settings", "ok", str(path))
    problems, remarks = _data_findings(study, own)
    problems += _refusals(study, own, home, {each.key for each in problems})
    yield from _by_subject(study, own, problems)
    yield from (Check("data", "warning", remark) for remark in remarks)


def _data_findings(study: Study, own: PlatformSettings) -> tuple[list[SettingProblem], list[str]]:
    problems = list(platform_problems(study, own))
    if any(not _is_of(each, _OF_POLICY) for each in problems):
        return problems, []  # texts that cannot be found cannot be read
    found, remarks = text_findings(study, own)
    return problems + found, remarks


def _refusals(
    study: Study, own: PlatformSettings, home: PlatformHome, reported: set[str]
) -> list[SettingProblem]:
    """Return for what else a job of the study would be refused before it starts."""
    refusals = job_problems(study, own, home.path, pinned=read_pins(home))
    return [each.problem for each in refusals if each.problem.key not in reported]


def _by_subject(
    study: Study, own: PlatformSettings, problems: list[SettingProblem]
) -> Iterator[Check]:
    labels = study.platform(own.name).labels if own.name in study.names else None
    fine = {
        "data": own.data,
        "labels": ", ".join(labels) if labels else "kept at home",
    }
    for subject in (*fine, "policy"):
        mine = [each for each in problems if _subject(each) == subject]
        for each in mine:
            found = f"{each.key}: found {each.found}; expected {each.expected}"
            yield Check(subject, "problem", found, each.hint)
        if not mine:
            yield Check(subject, "ok", fine.get(subject) or _accepted(study, own))


def _accepted(study: Study, own: PlatformSettings) -> str:
    most = most_answers(study, own)
    return f"accepts the study {study.digest}; at most {most:,} updates leave for it"


def _subject(problem: SettingProblem) -> str:
    if _is_of(problem, _OF_POLICY):
        return "policy"
    return "labels" if _is_of(problem, _OF_LABELS) else "data"


def _is_of(problem: SettingProblem, keys: tuple[str, ...]) -> bool:
    return problem.key.split(".")[0].split("[")[0] in keys


def _check_pins(
    home: PlatformHome, approval: Approval, study: Study, path: Path | None, settings: Path | None
) -> Iterator[Check]:
    members = approval.roster
    if path is not None:
        try:
            text = path.read_bytes()
        except OSError as error:
            raise FednerError(f"{path} cannot be read: {error.strerror}", "Name a file.") from error
        members = verified_roster(text, approval, str(path)).members
    pins, own = read_pins(home), read_home(home).name
    if any(each.name == own and each.removed is not None for each in members):
        hint = "Ask the coordinator to restore it."
        yield Check("pins", "problem", f"{own} was removed from the federation", hint)
    shown = roster_fingerprints(members)
    is_strict = settings is not None and _asks_for_pins(settings)
    wrong = pin_problems(pins, own, study.names, shown, all_pinned=False)
    for each in wrong:
        hint = "Do not take part. Ask that platform by telephone which fingerprint is its own."
        yield Check("pins", "problem", str(each), hint)
    unsure = [
        each
        for each in pin_problems(pins, own, study.names, shown, all_pinned=True)
        if each not in wrong
    ]
    hint = "Ask them to run `fedner platform show`, and pin: fedner platform pin NAME FINGERPRINT"
    for each in unsure:
        serious = is_strict and each.pinned is None
        yield Check("pins", "problem" if serious else "warning", str(each), hint)
    if not wrong and not unsure:
        yield Check("pins", "ok", f"all {len(study.names) - 1} other platforms are the pinned ones")


def _asks_for_pins(settings: Path) -> bool:
    try:
        policy = read_platform(settings).policy
    except FednerError:
        return False  # said already
    return policy.pinned


def _check_disk(path: Path) -> Iterator[Check]:
    free = shutil.disk_usage(path).free
    said = f"{free / 1e9:.1f} GB free in {path}"
    if free < LEAST_FREE_BYTES:
        yield Check("disk", "problem", said, f"Make room: {LEAST_FREE_BYTES / 1e9:g} GB at least.")
    elif free < ENOUGH_FREE_BYTES:
        yield Check("disk", "warning", said, "Large models and long runs may need more.")
    else:
        yield Check("disk", "ok", said)
