"""What a run came to, a sentence each: did joining help, where is F1 0.0, which DP it had."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from fedner.runs.records import PrivacySpent, RunScores
from fedner.scoring import Scores

MOST_NAMED = 3
SHOWN_AS_ZERO = 0.0005  # what one decimal of a percentage shows as 0.0
NO_PRIVACY = "No differential privacy: updates were sent without noise, and no bound is proved."


def verdict_sentence(scores: RunScores) -> str:
    """Return in one sentence whether joining helped, or that nobody can tell."""
    gains = scores.gains
    if not gains:
        return _scores_alone(scores)
    points = 100 * sum(each.strict.difference.value for each in gains.values())
    mean = f"{round(points / len(gains), 1) + 0.0:+.1f} points of strict F1"
    mean += " on average" if len(gains) > 1 else ""
    return f"{'; '.join(_helped({name: each.verdict for name, each in gains.items()}))} ({mean})."


def _helped(verdicts: Mapping[str, str]) -> list[str]:
    """Return whom joining helped, whom it harmed, and where it is not clear."""
    number, parts = len(verdicts), []
    helped, harmed, unclear = (
        [name for name, each in verdicts.items() if each == word]
        for word in ("yes", "no", "not clear")
    )
    if helped:
        parts.append(f"Joining helped {_who(helped, number)}")
    if harmed:
        parts.append(f"{'it' if parts else 'Joining'} harmed {_who(harmed, number)}")
    if unclear and parts:
        parts.append(f"for {_who(unclear, number)} it is not clear")
    elif unclear:
        who = unclear[0] if number == 1 else f"any of {number} platforms"
        parts.append(f"It is not clear whether joining helped {who}")
    return parts


def _scores_alone(scores: RunScores) -> str:
    names, method = list(scores.platforms), scores.main_method
    f1 = 100 * scores.mean[method].strict if method else 0.0
    where = names[0] if len(names) == 1 else f"{len(names)} platforms on average"
    unknown = "no local-only baseline was trained, so it is not known whether joining helped"
    return f"Strict F1 is {f1:.1f} on {where}; {unknown}."


def _who(names: Sequence[str], number: int) -> str:
    if len(names) == number:
        return names[0] if number == 1 else f"all {number} platforms"
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{len(names)} of {number} platforms"


def zero_sentence(
    scores: Mapping[str, Mapping[str, Scores]],
    types: Mapping[str, Collection[str]] | None = None,
) -> str:
    """Return where strict F1 is 0.0, in one sentence; empty where it is nowhere.

    Args:
        scores: By platform and method.
        types: The types that may be named, by platform; None names all.
    """
    places: dict[str, list[str]] = {}
    for place, method in _zeros(scores, types):
        places.setdefault(place, []).append(method)
    if not places:
        return ""
    said = [f"{place} ({', '.join(methods)})" for place, methods in places.items()]
    more = len(said) - 2 * MOST_NAMED
    shown = "; ".join(said[: 2 * MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
    return f"Strict F1 is 0.0 on {shown}: no mention was found correctly."


def _zeros(
    scores: Mapping[str, Mapping[str, Scores]], types: Mapping[str, Collection[str]] | None
) -> Iterator[tuple[str, str]]:
    for name, methods in scores.items():
        for method, held in methods.items():
            if held.strict_micro.f1 < SHOWN_AS_ZERO:
                yield name, method
                continue
            for label, counts in held.strict.items():
                may_name = types is None or label in types.get(name, ())
                if counts.gold > 0 and may_name and counts.f1 < SHOWN_AS_ZERO:
                    yield f"{label} of {name}", method


def privacy_sentence(spent: PrivacySpent | None) -> str:
    """Return in one sentence what differential privacy a run had, with the epsilon spent.

    Args:
        spent: What was spent; None without differential privacy.
    """
    if spent is None:
        return NO_PRIVACY
    epsilons = [each.pld for each in spent.platforms.values()]
    finite = [each for each in epsilons if each is not None]
    most = f"{max(finite, default=0.0):.2f}" if len(finite) == len(epsilons) else "infinite"
    terms = f"epsilon {most} at delta {spent.delta:g} for one {spent.unit}"
    if spent.simulation:
        return (
            f"Simulated differential privacy ({terms}): the noise had a seed, nobody is protected."
        )
    where = {
        "server": "by a server that must be trusted",
        "platform": "by each platform",
        "platforms": "by all platforms together, under a secure sum",
    }[spent.noise_by]
    return f"Differential privacy: at most {terms} was spent, noise added {where}."
