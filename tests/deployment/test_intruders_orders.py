"""A server that replays, reorders and alters orders: the platform refuses them and goes on.

The hostile server has the real one's certificate: nobody else can reach a platform's job.
"""

import base64
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from hostile_server import HostileServer
from live import NAMES, RUN, Live, live, quick_keys, tiny_settings, until
from torch import Tensor

from fedner.federated.message_bytes import reply_from_bytes, to_bytes
from fedner.federated.messages import Failure, Order, Update
from fedner.federated.sizes import planned_batches
from fedner.runs.blueprint import blueprint
from fedner.runs.disclosure_record import RECORD, read_record
from fedner.runs.public_files import declared_files
from fedner.runs.schedule import algorithm_for

pytestmark = pytest.mark.deployment
PLATFORM = NAMES[0]


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with quick_keys(), live(tmp_path_factory.mktemp("orders"), tiny_settings(20)) as made:
        yield made


@pytest.fixture(scope="module")
def server(federation: Live) -> HostileServer:
    """A hostile server, with a job that all platforms approved and began."""
    hostile = HostileServer(federation, federation.folder / "box")
    hostile.start()
    federation.start(*NAMES)
    federation.wait_connected()
    federation.submit(RUN)
    until((hostile.box / "job-is-up").exists, 60, "the hostile job")
    begin = replace(
        order(federation, 1), verb="begin", shared=type(order(federation, 1).shared)({})
    )
    assert isinstance(reply_from_bytes(sent(hostile, to_bytes(begin))), Update)
    return hostile


def order(federation: Live, number: int) -> Order:
    study = federation.study
    sizes = dict(study.public_sizes)
    batches = planned_batches(sizes, study.training.batch_size, algorithm_for(study).batching)
    shared = blueprint(study, declared_files(study)).initial_shared()
    return Order(RUN, number, shared, batches=batches, study=study.digest)


def changed(honest: Order, change: Callable[[Tensor], Tensor]) -> Order:
    held = {name: change(tensor) for name, tensor in honest.shared.items()}
    return replace(honest, shared=type(honest.shared)(held))


def sent(server: HostileServer, data: bytes) -> bytes:
    told = server.ask("job", target=PLATFORM, order=base64.b64encode(data).decode())
    assert told.get("code") == "ok", told
    return base64.b64decode(told["reply"])


def code(server: HostileServer, data: bytes) -> str:
    reply = reply_from_bytes(sent(server, data))
    return reply.code if isinstance(reply, Failure) else ""


def says(federation: Live, words: str) -> bool:
    return words in (federation.folder / f"{PLATFORM}.log").read_text(errors="replace")


def test_reordered_and_replayed_orders(server: HostileServer, federation: Live) -> None:
    """A round that has passed is gone; the newest one may be asked for again."""
    asked = [3, 2, 1, 3, 4, 3]
    told = [code(server, to_bytes(order(federation, number))) for number in asked]
    assert told == ["", "round-passed", "round-passed", "", "", "round-passed"]
    assert says(federation, f"platform {PLATFORM}, 'round' of round 2"), "its log names it"


ALTERED: dict[str, Callable[[bytes], bytes]] = {
    "a byte of the header": lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
    "its length": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "cut": lambda data: data[:-1],
    "longer": lambda data: data + b"\x00",
    "a number that is not finite": lambda data: data[:-4] + b"\x00\x00\xc0\x7f",
    "nothing": lambda _: b"",
}


@pytest.mark.parametrize("way", ALTERED)
def test_altered_orders(server: HostileServer, federation: Live, way: str) -> None:
    data = to_bytes(order(federation, 5))
    assert code(server, ALTERED[way](data)) == "order-refused"


def test_wrong_shapes_and_absurd_norms(server: HostileServer, federation: Live) -> None:
    honest = order(federation, 6)
    shapes = changed(honest, lambda tensor: tensor.reshape(-1)[:1])
    absurd = changed(honest, lambda tensor: torch.full_like(tensor, 1e30))
    for each in (shapes, absurd):
        assert code(server, to_bytes(each)) == "order-refused"


def test_the_platform_goes_on(server: HostileServer, federation: Live) -> None:
    """The last test: an honest order is answered, and all that was refused is on record."""
    assert code(server, to_bytes(order(federation, 7))) == ""
    lines = read_record(federation.homes.platforms[PLATFORM].path / RECORD).lines
    told = {line.code for line in lines if line.asked_by == "server"}
    assert {"round-passed", "order-refused"} <= told
