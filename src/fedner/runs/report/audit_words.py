"""What an audit says to a privacy officer: short cells, and a paragraph for the model card."""

from collections.abc import Mapping

from fedner.audit.finding import DEFENCES, Finding
from fedner.runs.records.audit import AuditRecord
from fedner.runs.report.markdown import bullets, escaped, section, table

HEADING = "Privacy audit"
DEFENCE_WORDS = {
    "none": "no defence",
    "local": "local DP",
    "central": "central DP",
    "distributed": "distributed DP",
    "secure-sum": "secure sum",
    "encryption": "encryption",
}
LEAD = (
    "Attacks that the platform made on itself. *Leak*: the attack did better than chance at 95 %, "
    "or than epsilon allows. *Within epsilon*: better than chance, as DP of this strength allows. "
    "*No leak found*: this attack, with this budget, did not; another may. *Inconclusive*: the "
    "attack did not even find a leak that was planted for it, and says nothing. *As ...*: the "
    "defence cannot change what this attack sees. Nothing here proves safety."
)
KEPT = (
    "The platforms are protected: what an audit found depends on their texts, and stays with them."
)


ENCRYPTED = (
    "Encryption is shown for a server that a platform helps with its key; without help it "
    "sees ciphertexts."
)


def verdict(finding: Finding) -> str:
    """Return the verdict of a cell in the words of the columns."""
    return finding.verdict if finding.same_as is None else f"as {DEFENCE_WORDS[finding.same_as]}"


def number(value: float) -> str:
    """Return a result in few digits."""
    return "beyond all numbers" if abs(value) > 1e12 else f"{value:.3g}"


def cell(finding: Finding) -> str:
    """Return one cell in words: the verdict, and the result where there is one."""
    if finding.status != "run" or finding.result is None:
        return verdict(finding)
    return f"{finding.verdict} ({number(finding.result)})"


def by_verdict(row: list[Finding]) -> dict[str, str]:
    """Return for each verdict of a row the defences that it holds for, with what was found."""
    held = {each.defence: each for each in row}
    said: dict[str, list[str]] = {}
    for each in row:
        meant = each if each.same_as is None else held[each.same_as]
        said.setdefault(meant.verdict, []).append(_told(each))
    return {each: ", ".join(words) for each, words in said.items()}


def _told(finding: Finding) -> str:
    """Return a defence and what the attack came to under it."""
    words = DEFENCE_WORDS[finding.defence]
    if finding.same_as is not None:
        return f"{words} (as {DEFENCE_WORDS[finding.same_as]})"
    if finding.result is None:
        return words
    limit = finding.promised if finding.verdict == "within epsilon" else None
    return f"{words} {number(finding.result)}" + ("" if limit is None else f" of {number(limit)}")


def power(row: list[Finding]) -> str:
    """Return how much of a planted leak an attack found, the least first where it differs."""
    known = {each.power_on_planted_leak for each in row} - {None}
    said = sorted({f"{each:.0%}" for each in known}, key=lambda share: int(share[:-1]))
    return " to ".join((said[0], said[-1])[: len(said)]) if said else "-"


def terms(record: AuditRecord) -> str:
    """Return how strong the defences of the table were."""
    whose = "the study's" if record.is_asked_for else "an example"
    return (
        f"Noise multiplier {record.noise_multiplier:.3g} at a bound of {record.max_grad_norm:g} "
        f"({whose}). {record.num_platforms} platforms in a sum; its own sentences stand in for "
        f"the others. Seed {record.seed}; weights of the first round."
    )


def audit_section(audits: Mapping[str, AuditRecord], *, is_deployed: bool) -> str:
    """Return the section of the model card; empty where nothing was audited.

    Args:
        audits: By platform.
        is_deployed: Whether the platforms are protected: then nothing of an audit is told.
    """
    if not audits:
        return ""
    if is_deployed:
        return section(HEADING, KEPT)
    blocks = [LEAD]
    for name, record in sorted(audits.items()):
        blocks += [
            f"**{escaped(name)}.** {_summary(record)}",
            f"{terms(record)} {ENCRYPTED}",
            _table(record),
        ]
    return section(HEADING, *blocks)


def _summary(record: AuditRecord) -> str:
    """Return what was found, in a sentence or two."""
    clear = [each for each in record.findings if each.defence == "none"]
    leaking = [each.attack for each in clear if each.verdict == "leak"]
    unknown = sorted({each.attack for each in record.findings if each.is_inconclusive})
    words = f"Without a defence {len(leaking)} of {len(record.attacks)} attacks worked" + (
        f": {', '.join(leaking)}." if leaking else "."
    )
    if unknown:
        words += f" Inconclusive: {', '.join(unknown)}."
    if record.broken:
        names = ", ".join(f"{each.attack} under {each.defence}" for each in record.broken)
        words += (
            f" **More than was promised: {names}. The protection is broken; please report it.**"
        )
    return words


def _table(record: AuditRecord) -> str:
    columns = ("attack", *(DEFENCE_WORDS[each] for each in DEFENCES), "found of a planted leak")
    rows = []
    for attack in record.attacks:
        row = list(record.row(attack))
        rows.append([escaped(attack), *(escaped(cell(each)) for each in row), power(row)])
    measures = {each.attack: each.measure for each in record.findings}
    meaning = bullets(f"{escaped(name)}: {escaped(text)}" for name, text in measures.items())
    return f"{table(columns, rows)}\n\n{meaning}"
