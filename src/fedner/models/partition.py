"""Which parameters are shared and which are private, by dotted module prefix.

A partition is total and disjoint, and every prefix that a user names must match something: a typo
that would share a private module, or keep a shared one at home, is an error, not a silent default.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from fedner.errors import FednerError
from fedner.tensors import SharedState, State

# From nothing to everything, as in Fig. 4 of Ge et al. 2020. Each names what is shared.
PRESETS: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "words": ("embeddings.words",),
    "embeddings": ("embeddings",),
    "fedner": ("embeddings", "word_cnn"),
    "encoder": ("embeddings", "word_cnn", "bilstm"),
    "everything": ("embeddings", "word_cnn", "bilstm", "emissions", "decoder"),
}


HEAD = "emissions"
TAG_MODULES = {HEAD, "decoder"}
# What belongs to the tags of one platform even where the head is shared: never transmitted.
ALWAYS_PRIVATE = "emissions.residual"


def shares_tags(shared: str | Sequence[str], head: str = "free") -> bool:
    """Whether a partition, by preset or by modules, shares what belongs to single tags.

    Args:
        shared: The preset, or the modules.
        head: That of the recipe. A "described" one has nothing of single tags but its residual,
            which stays private.
    """
    return head != "described" and bool(TAG_MODULES & _modules(shared))


def shares_head(shared: str | Sequence[str]) -> bool:
    """Whether a partition, by preset or by modules, shares the head, or a part of it."""
    return HEAD in _modules(shared)


def _modules(shared: str | Sequence[str]) -> set[str]:
    """Return the modules of which a partition shares anything."""
    prefixes = PRESETS.get(shared, ()) if isinstance(shared, str) else shared
    return {prefix.partition(".")[0] for prefix in prefixes}


@dataclass(frozen=True, slots=True)
class Partition:
    """The names of the shared and of the private parameters of one model.

    Made by `partition`, which proves it total and disjoint.

    Attributes:
        shared: What travels, sorted.
        private: What is never transmitted, sorted.
    """

    shared: tuple[str, ...]
    private: tuple[str, ...]

    def shared_state(self, state: State) -> SharedState:
        """Return the shared part of `state`: the only way to make a `SharedState` of a model."""
        return SharedState({name: state[name] for name in self.shared})

    def private_state(self, state: State) -> dict[str, Tensor]:
        """Return the private part of `state`."""
        return {name: state[name] for name in self.private}


def lies_under(name: str, prefix: str) -> bool:
    """Whether `name` is `prefix` or lies in it, by whole dotted parts: "fc1" holds no "fc10"."""
    return name == prefix or name.startswith(prefix + ".")


def partition(names: Iterable[str], shared: str | Sequence[str]) -> Partition:
    """Split parameter names into what is shared and what is private.

    Args:
        names: Every trainable parameter of the model.
        shared: A key of `PRESETS`, of which modules that the model lacks or holds frozen are left
            out; or dotted prefixes of one's own, each of which must match. The residual of a
            described head is private in any case.

    Raises:
        FednerError: There is no such preset, it shares nothing of this model, prefixes match
            nothing (all of them are named), or one names what is always private.
    """
    every = sorted(names)
    prefixes = _preset(shared, every) if isinstance(shared, str) else tuple(shared)
    _check_private(prefixes)
    unmatched = [p for p in prefixes if not any(lies_under(name, p) for name in every)]
    is_lost = len(unmatched) == len(prefixes) if isinstance(shared, str) else bool(unmatched)
    if unmatched and is_lost:
        modules = sorted({name.rsplit(".", 1)[0] for name in every})
        raise FednerError(
            f"shared {shared!r}: no trainable parameter lies under {unmatched}",
            f"What is trained here: {', '.join(modules)}. Share one of them, share 'nothing', or "
            "train that module.",
        )
    is_shared = {
        name
        for name in every
        if any(lies_under(name, p) for p in prefixes) and not lies_under(name, ALWAYS_PRIVATE)
    }
    return Partition(
        tuple(name for name in every if name in is_shared),
        tuple(name for name in every if name not in is_shared),
    )


def _check_private(prefixes: Iterable[str]) -> None:
    wrong = [prefix for prefix in prefixes if lies_under(prefix, ALWAYS_PRIVATE)]
    if wrong:
        raise FednerError(
            f"shared modules {wrong}: the residual of a described head belongs to the tags of one "
            "platform",
            "Leave it out of the shared modules: it stays on its platform.",
        )


def _preset(name: str, parameters: Iterable[str]) -> tuple[str, ...]:
    if name not in PRESETS:
        raise FednerError(
            f"no partition preset {name!r}",
            f"Choose one of {', '.join(PRESETS)}, or list the modules to share.",
        )
    if "bilstm" not in PRESETS[name]:
        return PRESETS[name]
    # Stages of one's own stand among the encoders: shared where all of these are.
    modules = {parameter.partition(".")[0] for parameter in parameters}
    return (*PRESETS[name], *sorted(modules - set(PRESETS["everything"])))
