"""An engine that carries every message as a file in a folder: python custom_engine.py FOLDER."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import fedner
from fedner.federated.message_bytes import order_from_bytes, reply_from_bytes, to_bytes
from fedner.federated.messages import Order, Reply, failure


class Folders:
    """A platform has a folder: an order is put there as a file, and so is the reply."""

    def __init__(self, answers, names: Sequence[str], folder: Path) -> None:
        self.platforms: Sequence[str] = sorted(names)
        self._answers = {name: answers(name) for name in self.platforms}
        self._folder = folder
        self._threads = ThreadPoolExecutor(1)  # what stands for the platforms' machines

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        """Hand each platform its order, and give exactly one reply of each."""
        end = None if timeout is None else time.monotonic() + timeout
        sent = {name: self._threads.submit(self._carry, name, orders[name]) for name in orders}
        for name, letter in sent.items():
            left = None if end is None else max(end - time.monotonic(), 0)
            done, _ = wait([letter], left)
            if not done:
                yield failure(name, orders[name].round, "no-reply")
            elif letter.exception() is not None:
                yield failure(name, orders[name].round, "worker-died")
            else:
                yield letter.result()

    def _carry(self, name: str, order: Order) -> Reply:
        box = self._folder / name
        box.mkdir(parents=True, exist_ok=True)
        (box / "order").write_bytes(to_bytes(order))
        reply = self._answers[name](order_from_bytes((box / "order").read_bytes()))
        (box / "reply").write_bytes(to_bytes(reply))
        return reply_from_bytes((box / "reply").read_bytes())

    def close(self) -> None:
        """End what was begun; may be called twice."""
        self._threads.shutdown()
        for answer in self._answers.values():
            answer.close()


if __name__ == "__main__":
    folder, names = Path(sys.argv[1]), ("case-reports", "forum-posts")
    corpora = {name: fedner.synthetic_corpus(name, 100, seed=1) for name in names}
    study = fedner.study_for(corpora, training={"rounds": 20})

    def answer(name: str) -> fedner.SiteAnswer:
        """Open one platform's half: at home this is all that runs."""
        own = fedner.PlatformSettings(name=name, data="notes/")
        return fedner.SiteAnswer(fedner.open_site(study, own, folder / name, corpus=corpora[name]))

    with closing(Folders(answer, names, folder / "letters")) as engine:
        done = fedner.coordinate(study, engine, folder / "coordinator")
    for name, report in done.reports.items():
        print(name, round(report.scores["federated"].strict_micro.f1, 3))
