"""Where an embedding comes from: the record that a checkpoint keeps instead of the numbers."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from fedner.errors import FednerError

Setting = str | int | float | bool

# The kind of an encoder of which only name, digest and size are known, as to a coordinator.
DECLARED = "declared encoder"


@dataclass(frozen=True, slots=True)
class EmbeddingOrigin:
    """What an embedding is made of, in full: equal origins give equal numbers for equal words.

    Attributes:
        kind: The sort of embedding: "word vectors", "hashed words", "characters", "flair".
        name: What people call it, such as the name of the file that it was read from.
        sha256: Digest of the source (file, weights or alphabet), in hexadecimal; empty where
            nothing but the settings decides.
        dimension: How many numbers a word gets.
        settings: The policies that change the result, such as lower-casing.
        layers: How many layers of an encoder stand side by side in the numbers of a word; a tagger
            learns how to mix them.
    """

    kind: str
    name: str
    sha256: str
    dimension: int
    settings: Mapping[str, Setting] = field(default_factory=dict)
    layers: int = 1

    @property
    def digest(self) -> str:
        """A hash of the whole record: what features are kept under."""
        return hashlib.sha256(json.dumps(self.to_json()).encode()).hexdigest()

    def to_json(self) -> dict[str, object]:
        """Return the record as plain JSON values; one layer, as most have, goes without saying."""
        record = {**asdict(self), "settings": dict(sorted(self.settings.items()))}
        if self.layers == 1:
            del record["layers"]
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, object]) -> "EmbeddingOrigin":
        """Read a record back.

        Raises:
            FednerError: If a field is missing, unknown, or of the wrong type.
        """
        types = {"kind": str, "name": str, "sha256": str, "dimension": int, "settings": Mapping}
        wrong = sorted((set(record) - {"layers"}) ^ set(types))
        wrong += [key for key in types if key in record and not isinstance(record[key], types[key])]
        if wrong:
            raise FednerError(
                f"origin of an embedding: fields {wrong} are missing, unknown or of a wrong type",
                f"Expected are exactly {sorted(types)}; take the file as fedner wrote it.",
            )
        settings, dimension = record["settings"], record["dimension"]
        layers = record.get("layers", 1)
        if not isinstance(settings, Mapping) or not isinstance(dimension, int):
            raise FednerError("origin of an embedding: settings or dimension of a wrong type")
        if not isinstance(layers, int) or layers < 1:
            raise FednerError(f"origin of an embedding: {layers!r} layers; expected at least 1")
        kind, name, sha256 = (str(record[key]) for key in ("kind", "name", "sha256"))
        return cls(kind, name, sha256, dimension, settings, layers)
