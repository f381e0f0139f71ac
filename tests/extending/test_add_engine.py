"""An engine from outside the package: letters in folders, picked up by threads."""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "federated"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engines"))

from parity import check_parity

from fedner.engines.roster import MakeAnswer
from fedner.federated.message_bytes import order_from_bytes, reply_from_bytes, to_bytes
from fedner.federated.messages import Failure, Order, Reply


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
