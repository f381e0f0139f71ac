"""An intruder at the server's port: sockets, TLS with any certificate, FLARE's frames by hand."""

import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

from fedner.runs.deployment import identity

_PREFIX = struct.Struct(">IHBBHHHH")
HELLO, DATA = 4, 1
_CELLS = 1  # FLARE's number of the application that takes messages of cells


@dataclass(frozen=True)
class Card:
    """What an intruder shows: a certificate and its key, or nothing."""

    authority: Path
    certificate: Path | None = None
    key: Path | None = None


def foreign_card(folder: Path, name: str, authority: Path) -> Card:
    """A certificate in a member's name, of an authority that the intruder made."""
    folder.mkdir()
    own = identity.make_authority(folder / "authority.key", "another federation")
    key = identity.make_key(folder / "foreign.key")
    request = identity.read_signing_request(identity.signing_request(key, name), "the test")
    certificate = identity.issue(own, request, name, "platform", 30)
    (folder / "foreign.crt").write_text(identity.pem(certificate))
    return Card(authority, folder / "foreign.crt", folder / "foreign.key")


@contextmanager
def caller(port: int, card: Card, seconds: float = 5.0) -> Iterator[ssl.SSLSocket]:
    """A TLS connection to the server."""
    context = ssl.create_default_context(cafile=str(card.authority))
    context.check_hostname = False
    if card.certificate is not None:
        context.load_cert_chain(card.certificate, card.key)
    plain = socket.create_connection(("127.0.0.1", port), timeout=seconds)
    with plain, context.wrap_socket(plain) as secure:
        yield secure


def is_closed(connection: socket.socket, seconds: float = 30.0) -> bool:
    """Whether the other end closes a connection, within some seconds."""
    connection.settimeout(seconds)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def frame(kind: int, payload: bytes, headers: bytes = b"") -> bytes:
    length = _PREFIX.size + len(headers) + len(payload)
    return _PREFIX.pack(length, len(headers), kind, 0, 0, _CELLS, 1, 1) + headers + payload


def prefix(length: int) -> bytes:
    """The beginning of a frame that announces a length."""
    return _PREFIX.pack(length, 0, DATA, 0, 0, _CELLS, 1, 1)


def hello(name: str) -> bytes:
    return frame(HELLO, msgpack.packb({"endpoint_name": name, "timestamp": 0.0, "fqcn": name}))


def message(headers: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """A message between cells."""
    return frame(DATA, payload, msgpack.packb(dict(headers)))


def request(origin: str, destination: str, channel: str, topic: str) -> bytes:
    """A request whose headers say what the intruder likes."""
    headers = {
        "cn__msg_type": "req", "cn__origin": origin, "cn__destination": destination,
        "cn__from": origin, "cn__to": destination, "cn__channel": channel, "cn__topic": topic,
        "cn__req_id": "intruder-1", "cn__reply_expected": True, "cn__payload_encoding": "none",
    }  # fmt: skip
    return message(headers)
