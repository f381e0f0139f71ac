"""An engine from outside the package: letters in folders, picked up by threads."""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "federated"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engines"))

import torch
from parity import check_parity
from tiny_federation import NAMES, settings

from fedner.engines.roster import MakeAnswer
from fedner.federated.message_bytes import order_from_bytes, reply_from_bytes, to_bytes
from fedner.federated.messages import Failure, Order, Reply
from fedner.runs.coordinator import coordinate
from fedner.runs.folder import RunFolder
from fedner.runs.schedule import algorithm_for
from fedner.runs.simulation import train_run
from fedner.runs.site import open_site
from fedner.runs.site_answer import SiteAnswer
from fedner.settings import platform_settings_of


class LetterBoxes:
    """Every platform has a folder: an order is put there as a file, and so is the reply."""

    def __init__(self, answers: MakeAnswer, names: Sequence[str]) -> None:
        self.platforms: Sequence[str] = sorted(names)
        self._answers = {name: answers(name) for name in names}
        self._boxes = tempfile.TemporaryDirectory()
        self._threads = ThreadPoolExecutor(1)

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        sent = {name: self._threads.submit(self._deliver, name, orders[name]) for name in orders}
        done, _ = wait(sent.values(), timeout)
        for name, letter in sent.items():
            late = Failure(name, orders[name].round, "no-reply")
            yield letter.result() if letter in done else late

    def _deliver(self, name: str, order: Order) -> Reply:
        box = Path(self._boxes.name) / name
        box.write_bytes(to_bytes(order))
        reply = self._answers[name](order_from_bytes(box.read_bytes()))
        box.write_bytes(to_bytes(reply))
        return reply_from_bytes(box.read_bytes())

    def close(self) -> None:
        self._threads.shutdown()
        for answer in self._answers.values():
            answer.close()
        self._boxes.cleanup()


def test_an_engine_from_outside_gives_the_same_bits(tmp_path: Path) -> None:
    check_parity(LetterBoxes, tmp_path)


def test_it_carries_a_whole_study_between_real_sites(tmp_path: Path) -> None:
    asked = settings("training.evaluate_every=1", "training.finetune_epochs=1")
    train_run(asked, tmp_path / "simulation")
    expected = RunFolder(tmp_path / "simulation")
    study = expected.study()
    sites = {
        name: open_site(study, platform_settings_of(asked, name), tmp_path / name) for name in NAMES
    }
    algorithm = algorithm_for(study)
    with closing(LetterBoxes(lambda name: SiteAnswer(sites[name], algorithm), NAMES)) as engine:
        done = coordinate(study, engine, tmp_path / "coordinator")
    assert done.shared
    for name, tensor in expected.shared(2).items():
        assert torch.equal(done.shared[name], tensor)
    for name in NAMES:
        own = expected.site(name).read("scores.json")["methods"]["federated"]["strict"]["micro"]
        report = done.reports[name].scores["federated"].strict_micro
        assert report.tp == own["tp"]
        assert done.rounds[0].scores[name]
        for file in ("report.html", "MODEL_CARD.md", "taggers/federated/model.safetensors"):
            assert (tmp_path / name / file).is_file(), "each platform finished by itself"
    kept = RunFolder(tmp_path / "coordinator").shared(2)
    assert all(torch.equal(kept[name], done.shared[name]) for name in kept)
    assert not (tmp_path / "coordinator" / "platforms").exists()
