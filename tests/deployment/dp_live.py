"""A live federation under differential privacy: real noise, a ledger at every platform."""

from pathlib import Path

from live import NAMES, Live, tiny_settings

from fedner.privacy.budget import Budget
from fedner.privacy.ledger_owner import ledger_chain, open_ledger
from fedner.runs.disclosure_record import RECORD, read_record
from fedner.settings import Settings
from seeded_keys import seeded_keys

_SIZE = 30
_DELTA = 1e-5


def dp_settings(
    folder: Path, rounds: int, mechanism: str = "unit-local", **changes: object
) -> Settings:
    """Three built-in platforms whose owners have opened ledgers with a large budget."""
    with seeded_keys():
        for name in NAMES:
            open_ledger(_ledger(folder, name), Budget(1e6, _DELTA, "sentence"), _SIZE)
    return tiny_settings(
        rounds,
        training={
            "rounds": rounds,
            "batch_size": 16,
            "baselines": [],
            "evaluate_every": 0,
            "checkpoint_every": 5,
        },
        privacy={
            "mechanism": mechanism,
            "unit": "sentence",
            "noise_multiplier": 1.0,
            "delta": _DELTA,
            "tuned_on": "public",
        },
        platforms=[
            {
                "name": name,
                "data": f"synthetic:{name}",
                "num_sentences": 40,
                "public_size": _SIZE,
                "ledger": str(_ledger(folder, name)),
            }
            for name in NAMES
        ],
        **changes,
    )


def _ledger(folder: Path, name: str) -> Path:
    return folder / "ledgers" / name


def assert_charged_once(federation: Live, folder: Path, run: str, rounds: int) -> int:
    """Each round stands in each ledger once, and whatever was sent of it is one and the same.

    Returns:
        How many answers were sent again.
    """
    num_resent = 0
    for name, home in federation.homes.platforms.items():
        charged = [e for e in ledger_chain(_ledger(folder, name)).releases if e.run == run]
        assert [each.round for each in charged] == list(range(1, rounds + 1)), name
        assert all(each.answer is not None for each in charged), name
        lines = [x for x in read_record(home.path / RECORD).lines if x.run == run and x.is_update]
        assert {line.round for line in lines} == set(range(1, rounds + 1)), name
        for number in range(1, rounds + 1):
            sent = {str(line.tensors) for line in lines if line.round == number}
            assert len(sent) == 1, (name, number)
        num_resent += len(lines) - rounds
    return num_resent
