"""One round of a secure sum: 2 million numbers, 10 platforms, with and without a drop-out.

Processor time of one core: of all parties together, and of the server alone. Beside it, in the same
run, what no secure sum of this kind can do without: the same number of AES-CTR streams, each added
once to a row of words. Bytes are those of the messages up, against float32 in the clear.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from fedner.federated.message_bytes import to_bytes
from fedner.federated.messages import Order, Reply, Update, failure
from fedner.federated.round import RoundRules, take_round
from fedner.federated.screening import NormRule, Screen
from fedner.federated.secure.identities import SimulatedIdentity
from fedner.federated.secure.plan import SumPlan
from fedner.federated.secure_sum import GRID, mean_scales, secure_sum
from fedner.federated.summation import PlatformSum, Summation
from fedner.privacy.sum_terms import SumTerms
from fedner.tensors import SharedState

NUM_NUMBERS, NUM_PLATFORMS, NUM_REPEATS = 2_000_000, 10, 3
NAMES = [f"platform-{each}" for each in range(NUM_PLATFORMS)]
STUDY = "5" * 64
Row = tuple[str, float, str]


@dataclass
class Timed:
    """An engine whose platforms only sum; what each of them takes is counted."""

    summation: Summation
    updates: Mapping[str, Update]
    gone: str = ""
    seconds: float = 0.0
    num_bytes: int = 0
    sides: dict[str, PlatformSum] = field(default_factory=dict)
    platforms = NAMES

    def close(self) -> None:
        """Nothing is held."""

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        """Answer, and count."""
        del timeout
        for name, order in orders.items():
            if name == self.gone and order.phase >= 3:
                yield failure(name, order.round, "platform-gone")
                continue
            began = time.process_time()
            reply = self._answer(name, order)
            self.seconds += time.process_time() - began
            self.num_bytes += len(to_bytes(reply))
            yield reply

    def _answer(self, name: str, order: Order) -> Reply:
        if name not in self.sides:
            self.sides[name] = self.summation.at_platform(name)
        if order.verb == "sum":
            return self.sides[name].phase(order)
        return self.sides[name].protect(order, replace(self.updates[name], round=order.round))


def streams(number: int) -> float:
    """Return the seconds of so many AES-CTR streams, each added once to a row of words."""
    words, zeros = np.zeros(NUM_NUMBERS, np.uint64), bytes(8 * NUM_NUMBERS)
    began = time.process_time()
    for each in range(number):
        encryptor = Cipher(AES(each.to_bytes(32, "big")), CTR(bytes(16))).encryptor()
        words += np.frombuffer(encryptor.update(zeros), np.uint64)
    return time.process_time() - began


def one_round(gone: str, round_: int) -> tuple[float, float, float]:
    """Return the seconds of all and of the server alone, and the bytes against float32."""
    scales, factor = mean_scales(dict.fromkeys(NAMES, 1.0))
    plan = SumPlan(SumTerms(NUM_PLATFORMS, 1, NUM_PLATFORMS - 1), GRID, scales, factor)
    generator = torch.Generator().manual_seed(round_)
    shapes = {"a": (NUM_NUMBERS // 2,), "b": (1000, NUM_NUMBERS // 2000)}
    updates = {
        name: Update(
            name,
            round_,
            SharedState({k: torch.randn(s, generator=generator) for k, s in shapes.items()}),
        )
        for name in NAMES
    }
    engine = Timed(secure_sum(plan, partial(SimulatedIdentity, STUDY)), updates, gone)
    weights = SharedState({key: torch.zeros(shape) for key, shape in shapes.items()})
    order = Order("run", round_, weights, batches=dict.fromkeys(NAMES, 1), study=STUDY)
    rules = RoundRules(
        dict.fromkeys(NAMES, 1.0),
        lambda names: dict.fromkeys(names, 1),
        quorum=NUM_PLATFORMS - 1,
        summation=engine.summation,
    )
    counted = time.process_time()
    take_round(engine, order, Screen(NormRule()), rules)
    whole = time.process_time() - counted
    num_sent = NUM_PLATFORMS - bool(gone)
    return whole, whole - engine.seconds, engine.num_bytes / (num_sent * 4 * NUM_NUMBERS)


def main() -> list[Row]:
    """Time rounds; return (name, value, unit) rows, each the best of three."""
    torch.set_num_threads(1)
    rows: list[Row] = []
    for said, gone in (("nobody drops out", ""), ("one drops out after its shares", NAMES[0])):
        found = [one_round(gone, each + 1) for each in range(NUM_REPEATS)]
        # A stream for each pair at both ends, one for each self mask at both ends, and those of
        # the platform that is gone at the server.
        number = (NUM_PLATFORMS - bool(gone)) * (NUM_PLATFORMS + 1)
        number += (NUM_PLATFORMS - 1) * bool(gone)
        bare = min(streams(number) for _ in range(NUM_REPEATS))
        whole, server, ratio = (min(each[place] for each in found) for place in range(3))
        rows += [
            (f"{said}: all parties, processor time", whole, "s"),
            (f"{said}: the server alone (bytes are counted in it)", server, "s"),
            (f"{said}: bytes up / float32 in the clear", ratio, "x"),
            (f"{said}: {number} bare AES-CTR streams and additions", bare, "s"),
            (f"{said}: all parties / bare", whole / bare, "x"),
        ]
    return rows
