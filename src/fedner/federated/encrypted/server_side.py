"""The coordinator's side of an encrypted round: it relays, adds up ciphertexts, and has no key."""

from collections import Counter
from collections.abc import Mapping

from fedner.errors import FednerError
from fedner.federated.encrypted.announcements import Announcement, parsed_announcement
from fedner.federated.encrypted.ciphertexts import Ciphertexts, RunningSum
from fedner.federated.encrypted.keys import KeylessContext
from fedner.federated.encrypted.phases import CIPHERTEXTS
from fedner.federated.messages import SumMessage


class ServerSide:
    """The coordinator's sum of one round."""

    def __init__(self, keyless: KeylessContext, round_: int, num_numbers: int, least: int) -> None:
        """Make the side.

        Args:
            keyless: Public parameters.
            round_: The round.
            num_numbers: How many numbers an update has, extras included: public.
            least: The fewest platforms whose updates may be in a sum.
        """
        self._round, self._num_numbers, self._least = round_, num_numbers, least
        self._sum = RunningSum(keyless, num_numbers)
        self._names: list[str] = []

    def add(self, message: SumMessage) -> None:
        """Add a platform's ciphertexts; what is not sound leaves the sum as it was.

        Raises:
            FednerError: If they are not of the study's parameters, or came before.
        """
        name, tensor = message.platform, message.tensors.get(CIPHERTEXTS)
        if tensor is None or len(message.tensors) != 1 or tensor.dim() != 1:
            raise FednerError(f"what {name!r} sent is not ciphertexts")
        if name in self._names:
            raise FednerError(f"{name!r} sent ciphertexts twice")
        self._sum.add(Ciphertexts(self._num_numbers, tensor.numpy().tobytes()))
        self._names.append(name)

    def total(self) -> tuple[tuple[str, ...], Ciphertexts]:
        """Return whose updates are in the sum, sorted, and the sum.

        Raises:
            FednerError: If too few are in it.
        """
        if len(self._names) < self._least:
            raise FednerError(
                f"round {self._round}: ciphertexts of {len(self._names)} platforms; expected at "
                f"least {self._least}",
                "Resume the run when more platforms are connected.",
            )
        return tuple(sorted(self._names)), self._sum.total()


def announced(messages: Mapping[str, SumMessage]) -> dict[str, Announcement]:
    """Return what platforms announced, as far as it can be read; only platforms check it."""
    found: dict[str, Announcement] = {}
    for name, message in messages.items():
        try:
            found[name] = parsed_announcement(message.entries.get(name, b""))
        except FednerError:
            continue
    return found


def require_one_arithmetic(found: Mapping[str, Announcement]) -> None:
    """Raise if some platforms would compute other bits than most of them.

    Raises:
        FednerError: If so; it names those.
    """
    kinds = Counter(each.held.arithmetic for each in found.values())
    if len(kinds) < 2:
        return
    usual = max(sorted(kinds), key=kinds.__getitem__)
    odd = sorted(name for name, each in found.items() if each.held.arithmetic != usual)
    raise FednerError(
        f"encryption: {', '.join(odd)} would compute other bits than the other platforms; every "
        "platform takes the server's step by itself, and all must get the same weights",
        "Give all platforms the same release of torch, and the same kind of processor.",
    )
