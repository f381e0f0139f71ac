"""Hostile inputs for decoders: random bytes, cut and flipped messages, and spoilt JSON."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 9, "9", "", "x", 1.5, -0.0, 1e308, -1e308, 10**40, -(10**40),
    2**31, 2**63, 2**64, float("nan"), float("inf"), float("-inf"), [], {}, [[]], [None], {"a": 1},
    "\ud800", "\x00", "\x1b[2J", "ü" * 600, "../../etc/passwd", {"__class__": "x"}, "1e5", [1] * 50,
)  # fmt: skip


def paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value within a JSON value, the whole first."""
    yield before
    if isinstance(value, dict):
        for key in value:
            yield from paths(value[key], (*before, key))
    elif isinstance(value, list):
        for place in range(len(value)):
            yield from paths(value[place], (*before, place))


def nested(chance: random.Random) -> Any:
    value: Any = copy.deepcopy(chance.choice(ODD))
    for _ in range(chance.choice((3, 50, 150))):
        value = [value] if chance.random() < 0.5 else {"a": value}
    return value


def mutated(value: Any, chance: random.Random) -> Any:
    """Return a JSON value with one to three changes somewhere in it."""
    changed = copy.deepcopy(value)
    for _ in range(chance.randint(1, 3)):
        path = chance.choice(list(paths(changed)))
        new = nested(chance) if chance.random() < 0.05 else copy.deepcopy(chance.choice(ODD))
        if not path:
            if chance.random() < 0.2:
                changed = new
            continue
        holder = changed
        for key in path[:-1]:
            holder = holder[key]
        what = chance.random()
        if what < 0.6:
            holder[path[-1]] = new
        elif what < 0.75:
            del holder[path[-1]]
        elif isinstance(holder, dict):
            holder[chance.choice(("x", "", "kind", "\ud800", "earlier"))] = new
        else:
            holder.append(new)
    return changed


def dumped(value: Any, chance: random.Random) -> bytes:
    """Return JSON text, sometimes with a key twice or cut off."""
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):
        text = "[" * 100_000
    what = chance.random()
    if what < 0.05 and text.startswith("{"):
        text = '{"a":1,"a":2,' + text[1:]
    elif what < 0.1:
        text = text[: chance.randrange(len(text) + 1)]
    elif what < 0.12:
        text = "[" * chance.choice((10, 2_000, 100_000)) + text
    return text.encode(errors="surrogatepass")


def flipped(data: bytes, chance: random.Random) -> bytes:
    """Return bytes with some bits turned over."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def hostile_bytes(
    whole: bytes, spoilt: Callable[[random.Random], bytes], count: int, seed: int
) -> Iterator[bytes]:
    """Yield hostile inputs: a tenth random, two tenths cut or flipped, the rest by structure."""
    chance = random.Random(seed)
    for _ in range(count):
        what = chance.random()
        if what < 0.1:
            yield chance.randbytes(chance.choice((0, 1, 8, 9, 40, 400)))
        elif what < 0.2:
            yield whole[: chance.randrange(len(whole))]
        elif what < 0.3:
            yield flipped(whole, chance)
        elif what < 0.35:
            place = chance.randrange(len(whole))
            yield whole[:place] + chance.randbytes(8) + whole[place:]
        else:
            yield spoilt(chance)
