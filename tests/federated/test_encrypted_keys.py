"""The key of an encrypted run: sealed for each platform, bound to round and name, codes of states
that nobody without it can make."""

import pytest

from fedner.errors import FednerError
from fedner.federated.encrypted.announcements import (
    Announcement,
    Held,
    RoundContext,
    RunSecret,
    key_giver,
    make_secret,
    odd_states,
    open_secret,
    read_announcement,
    seal_secret,
    secret_from_bytes,
)
from fedner.federated.encrypted.parameters import CkksParameters
from fedner.federated.secure.identities import SimulatedIdentity
from fedner.federated.secure.keys import KeyPair, make_pair
from fedner.federated.summation import SumRefusedError

STUDY = "5" * 64
PARAMETERS = CkksParameters(3)
CONTEXT = RoundContext(STUDY, "run", 4, str(PARAMETERS))
NONE = Held()


@pytest.fixture(scope="module")
def secret() -> RunSecret:
    return make_secret(PARAMETERS)


@pytest.fixture(scope="module")
def pairs() -> dict[str, KeyPair]:
    return {name: make_pair() for name in "abc"}


def announced(name: str, pair: KeyPair, held: Held = NONE) -> Announcement:
    identity = SimulatedIdentity(STUDY, name)
    return Announcement.signed(CONTEXT, name, pair.public, held, identity)


def test_an_announcement_is_read_of_its_own_platform_and_round_alone(
    pairs: dict[str, KeyPair],
) -> None:
    reader, sent = (
        SimulatedIdentity(STUDY, "b"),
        announced("a", pairs["a"], Held(3, b"k" * 32, b"s" * 32)),
    )
    assert read_announcement(CONTEXT, "a", sent.to_bytes(), reader) == sent
    other_round = RoundContext(STUDY, "run", 5, str(PARAMETERS))
    other_run = RoundContext(STUDY, "run 2", 4, str(PARAMETERS))
    for context, name in ((other_round, "a"), (other_run, "a"), (CONTEXT, "c")):
        with pytest.raises(SumRefusedError, match="not signed"):
            read_announcement(context, name, sent.to_bytes(), reader)
    for altered in (
        sent._replace(channel=b"x" * 32),
        sent._replace(held=sent.held._replace(key=b"x" * 32)),
        sent._replace(held=sent.held._replace(state=b"x" * 32)),
        sent._replace(held=sent.held._replace(after=2)),
    ):
        with pytest.raises(SumRefusedError, match="not signed"):
            read_announcement(CONTEXT, "a", altered.to_bytes(), reader)
    with pytest.raises(SumRefusedError, match="cannot be read"):
        read_announcement(CONTEXT, "a", sent.to_bytes()[:-1], reader)
    ahead = announced("a", pairs["a"], Held(4, b"k" * 32, b"s" * 32))
    with pytest.raises(SumRefusedError, match="after round 4, later"):
        read_announcement(CONTEXT, "a", ahead.to_bytes(), reader)


@pytest.mark.parametrize(
    ("channel", "held"), [(b"c", NONE), (None, Held(0, b"k" * 32)), (None, Held(0, b"k", b"s"))]
)
def test_an_announcement_with_keys_of_another_length_is_refused(
    pairs: dict[str, KeyPair], channel: bytes | None, held: Held
) -> None:
    identity = SimulatedIdentity(STUDY, "a")
    shown = pairs["a"].public if channel is None else channel
    sent = Announcement.signed(CONTEXT, "a", shown, held, identity)
    with pytest.raises(SumRefusedError, match="another length"):
        read_announcement(CONTEXT, "a", sent.to_bytes(), identity)


def test_the_key_is_sealed_for_each_platform_without_it_and_for_nobody_else(
    secret: RunSecret, pairs: dict[str, KeyPair]
) -> None:
    every = {name: announced(name, pair) for name, pair in pairs.items()}
    sealed = seal_secret(secret, pairs["a"], CONTEXT, "a", every)
    assert sorted(sealed) == ["b", "c"]
    for name in "bc":
        opened = open_secret(
            PARAMETERS, pairs[name], CONTEXT, ("a", every["a"]), name, sealed[name]
        )
        assert opened.data == secret.data
        assert secret.data[50:200] not in sealed[name]
    later = RoundContext(STUDY, "run", 5, str(PARAMETERS))
    altered = bytes([sealed["b"][0] ^ 1]) + sealed["b"][1:]
    for pair, context, sender, name, data in (
        (pairs["c"], CONTEXT, "a", "c", sealed["b"]),  # of another
        (pairs["c"], CONTEXT, "a", "b", sealed["b"]),
        (pairs["b"], later, "a", "b", sealed["b"]),
        (pairs["b"], CONTEXT, "c", "b", sealed["b"]),
        (pairs["b"], CONTEXT, "a", "b", altered),
    ):
        with pytest.raises(FednerError, match=r"run key\) was altered"):
            open_secret(PARAMETERS, pair, context, (sender, every[sender]), name, data)


def test_who_has_the_key_gets_none_and_a_key_that_was_not_announced_is_refused(
    secret: RunSecret, pairs: dict[str, KeyPair]
) -> None:
    every = {name: announced(name, pair) for name, pair in pairs.items()}
    every["b"] = announced("b", pairs["b"], Held(3, secret.name, b"s" * 32))
    assert sorted(seal_secret(secret, pairs["b"], CONTEXT, "b", every)) == ["a", "c"]
    every["c"] = announced("c", pairs["c"], Held(3, secret.name, b"s" * 32))
    sealed = seal_secret(secret, pairs["b"], CONTEXT, "b", every)
    assert sorted(sealed) == ["a"]
    other_key = {**every, "c": announced("c", pairs["c"], Held(0, b"o" * 32, b"s" * 32))}
    assert sorted(seal_secret(secret, pairs["b"], CONTEXT, "b", other_key)) == ["a", "c"]
    open_secret(PARAMETERS, pairs["a"], CONTEXT, ("b", every["b"]), "a", sealed["a"])
    other = announced("b", pairs["b"], Held(3, b"o" * 32, b"s" * 32))
    with pytest.raises(FednerError, match="another key than it announced"):
        open_secret(PARAMETERS, pairs["a"], CONTEXT, ("b", other), "a", sealed["a"])


def test_the_first_with_the_key_gives_it_and_without_any_the_first_makes_it(
    pairs: dict[str, KeyPair],
) -> None:
    every = {name: announced(name, pair) for name, pair in pairs.items()}
    assert key_giver(every) == "a"
    every["c"] = announced("c", pairs["c"], Held(3, b"k" * 32, b"s" * 32))
    assert key_giver(every) == "c"
    every["b"] = announced("b", pairs["b"], Held(3, b"k" * 32, b"s" * 32))
    assert key_giver(every) == "b"
    # One that was made and never handed over: rounds count, then how many have it, then names.
    every["a"] = announced("a", pairs["a"], Held(0, b"o" * 32, b"s" * 32))
    assert key_giver(every) == "b"
    every["a"] = announced("a", pairs["a"], Held(3, b"o" * 32, b"s" * 32))
    assert key_giver(every) == "b"
    every["a"] = announced("a", pairs["a"], Held(4, b"o" * 32, b"s" * 32))
    assert key_giver(every) == "a"
    del every["c"]
    every["a"] = announced("a", pairs["a"], Held(3, b"o" * 32, b"s" * 32))
    assert key_giver(every) == "a"


def test_codes_of_states_need_the_key_and_differ_by_round(
    secret: RunSecret, pairs: dict[str, KeyPair]
) -> None:
    again = secret_from_bytes(PARAMETERS, secret.data)
    own = secret.state_code(CONTEXT, "a", b"state")
    assert again.state_code(CONTEXT, "a", b"state") == own
    later = RoundContext(STUDY, "run", 5, str(PARAMETERS))
    others = [
        secret.state_code(later, "a", b"state"),
        secret.state_code(CONTEXT, "a", b"other"),
        secret.state_code(CONTEXT, "b", b"state"),  # a server cannot see that two are the same
        make_secret(PARAMETERS).state_code(CONTEXT, "a", b"state"),
    ]
    assert own not in others

    def shown(name: str, state: bytes, after: int = 3) -> Announcement:
        held = Held(after, secret.name, secret.state_code(CONTEXT, name, state))
        return announced(name, pairs[name], held)

    every = {"a": shown("a", b"state"), "b": announced("b", pairs["b"]), "c": shown("c", b"other")}
    assert odd_states(every, secret, CONTEXT, (3, b"state")) == ["c"]
    every["c"] = shown("c", b"other", after=2)  # behind, not odd
    assert odd_states(every, secret, CONTEXT, (3, b"state")) == []
    every["b"] = shown("b", b"state")
    assert odd_states(every, secret, CONTEXT, (3, b"state")) == []
    every["b"] = announced("b", pairs["b"], Held(3, b"o" * 32, b"s" * 32))  # of another key
    assert odd_states(every, secret, CONTEXT, (3, b"state")) == []
    every["b"] = shown("b", b"state")._replace(held=every["a"].held)  # the code of another
    assert odd_states(every, secret, CONTEXT, (3, b"state")) == ["b"]
    assert "RunSecret object" in repr(secret)
