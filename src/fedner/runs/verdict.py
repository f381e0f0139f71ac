"""What a run came to, a sentence each: did joining help, where is F1 0.0, which DP it had."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

MOST_NAMED = 3
SHOWN_AS_ZERO = 0.0005  # what one decimal of a percentage shows as 0.0
NO_PRIVACY = "No differential privacy: updates were sent without noise, and no bound is proved."


def verdict_sentence(scores: Mapping[str, Any]) -> str:
    """Return in one sentence whether joining helped, or that nobody can tell.

    Args:
        scores: What `scores.json` holds.
    """
    platforms = scores["platforms"]
    gains = {name: each["gain"] for name, each in platforms.items() if each["gain"]}
    if not gains:
        return _scores_alone(scores)
    by_verdict = {
        word: [name for name, gain in gains.items() if gain["verdict"] == word]
        for word in ("yes", "no", "not clear")
    }
    points = 100 * sum(each["strict"]["difference"]["value"] for each in gains.values())
    mean = f"{round(points / len(gains), 1) + 0.0:+.1f} points of strict F1"
    mean += " on average" if len(gains) > 1 else ""
    parts = []
    if by_verdict["yes"]:
        parts.append(f"Joining helped {_who(by_verdict['yes'], len(gains))}")
    if by_verdict["no"]:
        parts.append(f"{'it' if parts else 'Joining'} harmed {_who(by_verdict['no'], len(gains))}")
    if by_verdict["not clear"]:
        if parts:
            parts.append(f"for {_who(by_verdict['not clear'], len(gains))} it is not clear")
        else:
            who = next(iter(gains)) if len(gains) == 1 else f"any of {len(gains)} platforms"
            parts.append(f"It is not clear whether joining helped {who}")
    return f"{'; '.join(parts)} ({mean})."


def _scores_alone(scores: Mapping[str, Any]) -> str:
    names, method = list(scores["platforms"]), _main_method(scores)
    f1 = 100 * scores["mean"][method]["strict"] if method else 0.0
    where = names[0] if len(names) == 1 else f"{len(names)} platforms on average"
    unknown = "no local-only baseline was trained, so it is not known whether joining helped"
    return f"Strict F1 is {f1:.1f} on {where}; {unknown}."


def _main_method(scores: Mapping[str, Any]) -> str | None:
    methods = list(scores["mean"])
    return "federated" if "federated" in methods else next(iter(methods), None)


def _who(names: Sequence[str], number: int) -> str:
    if len(names) == number:
        return names[0] if number == 1 else f"all {number} platforms"
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{len(names)} of {number} platforms"


def zero_sentence(
    scores: Mapping[str, Any], types: Mapping[str, Collection[str]] | None = None
) -> str:
    """Return where strict F1 is 0.0, in one sentence; empty where it is nowhere.

    Args:
        scores: What `scores.json` holds.
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
    return f"Strict F1 is 0.0, so nothing was found right, on {shown}."


def _zeros(
    scores: Mapping[str, Any], types: Mapping[str, Collection[str]] | None
) -> Iterator[tuple[str, str]]:
    for name, platform in scores["platforms"].items():
        for method, held in platform["methods"].items():
            strict = held["strict"]
            if strict["micro"]["f1"] < SHOWN_AS_ZERO:
                yield name, method
                continue
            for label, counts in strict["labels"].items():
                is_tested = counts["tp"] + counts["fn"] > 0
                may_name = types is None or label in types.get(name, ())
                if is_tested and may_name and counts["f1"] < SHOWN_AS_ZERO:
                    yield f"{label} of {name}", method


def privacy_sentence(spent: Mapping[str, Any] | None) -> str:
    """Return in one sentence what differential privacy a run had, with the epsilon spent.

    Args:
        spent: What `privacy.json` holds; None without differential privacy.
    """
    if spent is None:
        return NO_PRIVACY
    epsilons = [each["pld"] for each in spent["platforms"].values()]
    finite = [each for each in epsilons if each is not None]
    most = f"{max(finite, default=0.0):.2f}" if len(finite) == len(epsilons) else "infinite"
    terms = f"epsilon {most} at delta {spent['delta']:g} for one {spent['unit']}"
    if spent["simulation"]:
        return (
            f"Simulated differential privacy ({terms}): the noise had a seed, nobody is protected."
        )
    where = {"server": "by a server that must be trusted", "platform": "by each platform"}[
        spent["noise_by"]
    ]
    return f"Differential privacy: at most {terms} was spent, noise added {where}."
