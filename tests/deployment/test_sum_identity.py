"""Who signs in a secure sum across machines: the key of a home that the roster names."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedner.errors import FednerError
from fedner.federated.secure.bundles import Bundle, read_bundle
from fedner.federated.secure.identities import Identity
from fedner.federated.secure.wire import Context
from fedner.federated.summation import SumRefusedError
from fedner.runs.deployment.announcing import Announced, announced, facts_of
from fedner.runs.deployment.federation import signed_roster
from fedner.runs.deployment.identity import make_key
from fedner.runs.deployment.sum_identity import HomeIdentity, own_part
from fedner.runs.deployment.trial import Homes
from fedner.settings import Study

CONTEXT = Context("5" * 64, "run", 1, 3, 1, "grid")


def job_of(homes: Homes, study: Study, roster: str | None = None) -> Announced:
    signed = signed_roster(homes.federation).model_dump_json() if roster is None else roster
    return announced(facts_of("run", study.canonical, signed))


@pytest.fixture
def both(homes: Homes, study: Study) -> tuple[Identity, Identity]:
    job = job_of(homes, study)
    one, two = (
        own_part(homes.platforms[name].path, job, name).identities(name)
        for name in ("north", "south")
    )
    return one, two


def test_platforms_know_each_other_by_the_roster(both: tuple[Identity, Identity]) -> None:
    north, south = both
    signature = north.sign(b"keys")
    assert south.is_signed("north", north.public, b"keys", signature)
    assert not south.is_signed("north", north.public, b"other keys", signature)
    altered = signature[:-1] + bytes([signature[-1] ^ 1])
    assert not south.is_signed("north", north.public, b"keys", altered)
    assert not south.is_signed("south", north.public, b"keys", signature), "in another's name"
    assert not south.is_signed("north", south.public, b"keys", south.sign(b"keys"))
    assert not south.is_signed("west", north.public, b"keys", signature), "not in the roster"
    assert not south.is_signed("north", b"\0", b"keys", signature)


def test_only_rsa_keys_count(both: tuple[Identity, Identity]) -> None:
    north, _ = both
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    public = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    import hashlib

    known = {"odd": hashlib.sha256(public).hexdigest()}
    assert not HomeIdentity(north.key, known).is_signed("odd", public, b"", b"")  # type: ignore[attr-defined]


def test_keys_of_a_round_are_bound_to_the_home(both: tuple[Identity, Identity]) -> None:
    north, south = both
    bundle = Bundle.signed(CONTEXT, "north", b"c" * 32, b"m" * 32, b"s" * 32, north)
    assert len(bundle.to_bytes()) < 1_500, "far below what an entry may have"
    assert read_bundle(CONTEXT, "north", bundle.to_bytes(), south).mask == b"m" * 32
    posing = Bundle.signed(CONTEXT, "north", b"c" * 32, b"m" * 32, b"s" * 32, south)
    with pytest.raises(SumRefusedError, match="not signed by it"):
        read_bundle(CONTEXT, "north", posing.to_bytes(), south)


def test_a_home_whose_key_the_roster_does_not_name_takes_no_part(
    homes: Homes, study: Study, tmp_path: Path
) -> None:
    north = homes.platforms["north"]
    job = job_of(homes, study)
    with pytest.raises(FednerError, match="this home is of 'north'"):
        own_part(north.path, job, "north").identities("south")
    assert own_part(north.path, job, "north").record == north.path / "secure-sums.jsonl"
    make_key(tmp_path / "other.key")
    north.key.write_bytes((tmp_path / "other.key").read_bytes())
    with pytest.raises(FednerError, match="another key of 'north'"):
        own_part(north.path, job, "north")


def test_a_roster_that_the_authority_did_not_sign_is_refused(homes: Homes, study: Study) -> None:
    roster = signed_roster(homes.federation).model_copy(update={"signature": "AAAA"})
    with pytest.raises(FednerError):
        own_part(
            homes.platforms["north"].path, job_of(homes, study, roster.model_dump_json()), "north"
        )
