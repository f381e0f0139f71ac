"""The kernel of encrypted sums: exact sums, a stated error, noise that nobody sees, no key at the
server."""

import gc
import math
from collections.abc import Callable

import numpy as np
import pytest
import tenseal
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.errors import FednerError
from fedner.federated.encrypted import ciphertexts
from fedner.federated.encrypted.ciphertexts import (
    Ciphertexts,
    DecryptionError,
    RunningSum,
    decrypt,
    decrypt_counts,
    encrypt,
)
from fedner.federated.encrypted.keys import (
    KeylessContext,
    RunKey,
    key_from_bytes,
    keyless_context,
    make_run_key,
)
from fedner.federated.encrypted.parameters import MOST_ERROR, CkksParameters
from fedner.federated.grid import OutOfRangeError
from fedner.federated.secure.wire import packed, unpacked
from fedner.federated.tensor_bytes import NotFiniteError

PARAMETERS = CkksParameters(10)


@pytest.fixture(scope="module")
def key() -> RunKey:
    return make_run_key(PARAMETERS)


@pytest.fixture(scope="module")
def keyless() -> KeylessContext:
    return keyless_context(PARAMETERS)


def summed(keyless: KeylessContext, rows: list[Ciphertexts]) -> Ciphertexts:
    total = RunningSum(keyless, rows[0].num_numbers)
    for row in rows:
        total.add(row)
    return total.total()


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_the_sum_is_exact_on_the_grid_up_to_the_ends_of_the_range(
    key: RunKey, keyless: KeylessContext, data: st.DataObject
) -> None:
    number = data.draw(st.integers(1, 10))
    most = math.floor(PARAMETERS.largest_count / 10 / math.sqrt(7))
    counts = st.lists(st.integers(-most, most), min_size=7, max_size=7)
    rows = np.array([data.draw(counts) for _ in range(number)])
    total = summed(keyless, [encrypt(key, row * PARAMETERS.step, 0.1) for row in rows])
    assert (decrypt_counts(key, total, 7) == rows.sum(axis=0)).all()
    assert (decrypt(key, total, 7) == rows.sum(axis=0) * PARAMETERS.step).all()


@pytest.mark.parametrize("number", [1, 2047, 2048, 2049, 5000])
def test_rows_of_any_length_come_back_within_the_stated_error(
    key: RunKey, keyless: KeylessContext, number: int
) -> None:
    drawn = np.random.default_rng(number).normal(size=(10, number)).astype(np.float32)
    total = summed(keyless, [encrypt(key, row, 0.1) for row in drawn])
    assert np.abs(decrypt(key, total, number) - drawn.sum(axis=0, dtype=np.float64)).max() <= 7.5e-8
    assert PARAMETERS.largest_error <= 7.5e-8
    assert len(unpacked(total.data, math.ceil(number / 2048))) == math.ceil(number / 2048)


def test_rows_that_fill_the_range_in_every_slot_are_exact(
    key: RunKey, keyless: KeylessContext
) -> None:
    # All slots alike put the whole sum into one coefficient; one alone spreads over all.
    alike = np.full(2048, PARAMETERS.largest / 10 / math.sqrt(2048))
    alone = np.zeros(2048)
    alone[77] = PARAMETERS.largest / 10
    signs = np.sign(np.random.default_rng(3).normal(size=2048))
    for row in (alike, -alike, alone, -alone, alike * signs):
        counts = np.trunc(row / PARAMETERS.step)
        rows = [encrypt(key, counts * PARAMETERS.step, 0.1) for _ in range(10)]
        found = decrypt_counts(key, summed(keyless, rows), 2048)
        assert (found == 10 * counts).all()


def test_the_noise_is_as_stated_and_the_rounding_takes_it_away(
    key: RunKey, keyless: KeylessContext
) -> None:
    """Accept the stated deviation, reject 2/3 and 3/2 of it, on the sum."""
    zeros = np.zeros(2048 * 4)
    total = summed(keyless, [encrypt(key, zeros, 0.1) for _ in range(10)])
    parts = unpacked(total.data, 4)
    raw = [tenseal.ckks_vector_from(key.context, each).decrypt() for each in parts]
    found = np.std(np.concatenate(raw))
    stated = PARAMETERS.most_noise / 9
    assert 0.93 * stated < found < 1.07 * stated
    assert not decrypt_counts(key, total, zeros.size).any()


@pytest.mark.parametrize("number", [1, 2, 3, 10, 30, 100, 134])
def test_parameters_leave_the_noise_below_a_half_and_the_error_below_the_bound(number: int) -> None:
    found = CkksParameters(number)
    assert 0.4 < found.most_noise <= 0.45
    assert found.most_noise * found.scale >= 9 * 3.24 * math.sqrt(number * 2048)
    assert found.largest_error == number * 2.0**-27 <= MOST_ERROR
    assert found.largest >= 16
    assert found.largest_count * found.scale <= math.sqrt(2048) * 2**46, "a quarter of the modulus"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"num_summands": 135}, "error of 135 summands"),
        ({"num_summands": 2, "step": 2.0**-19}, "expected at most 1e-06"),
        ({"num_summands": 0}, "at least 1"),
        ({"num_summands": 2, "step": -0.1}, "above 0"),
        ({"num_summands": 2, "step": math.inf}, "above 0"),
        ({"num_summands": 2, "degree": 2048}, "degree 2048"),
        ({"num_summands": 2, "modulus_bits": 61}, "61 bits"),
        ({"num_summands": 2, "modulus_bits": 29}, "29 bits"),
        ({"num_summands": 2, "modulus_bits": 55}, "128 bits of security"),
        ({"num_summands": 2, "modulus_bits": 36}, "expected at least 4294967296"),
    ],
)
def test_parameters_that_are_not_exact_or_not_safe_are_refused(
    facts: dict[str, float], words: str
) -> None:
    with pytest.raises(FednerError, match=words):
        CkksParameters(**facts)  # type: ignore[arg-type]


def test_the_finest_step_is_taken_whose_range_suffices() -> None:
    for number, largest in ((10, 64.0), (4, 5.0), (3, 0.5)):
        found = CkksParameters.for_range(number, largest)
        assert found.largest == pytest.approx(largest, rel=1e-9)
        room = math.sqrt(2048) * 2**46 / found.scale
        assert found.step == pytest.approx(largest / room, rel=1e-6)
    with pytest.raises(FednerError, match="expected at most 1e-06"):
        CkksParameters.for_range(10, 1e6)
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(FednerError, match="range"):
            CkksParameters.for_range(10, bad)


def test_numbers_outside_a_share_of_the_range_are_refused_before_they_are_encrypted(
    key: RunKey,
) -> None:
    most = PARAMETERS.largest
    encrypt(key, [0.0999 * most], 0.1)
    with pytest.raises(OutOfRangeError, match=f"above {0.1 * most:g}"):
        encrypt(key, [0.0, -0.1001 * most], 0.1)
    encrypt(key, [-most], 1.0)
    for share in (0.0, 1.1, math.nan):
        with pytest.raises(FednerError, match="share"):
            encrypt(key, [0.0], share)
    with pytest.raises(FednerError, match="one row"):
        encrypt(key, [[0.0]], 1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e308])
def test_numbers_that_are_not_finite_are_refused(key: RunKey, bad: float) -> None:
    with pytest.raises((NotFiniteError, OutOfRangeError)):
        encrypt(key, [0.0, bad], 1.0)


def test_a_key_travels_and_another_key_is_noticed(key: RunKey, keyless: KeylessContext) -> None:
    row = np.arange(40) / 8
    total = summed(keyless, [encrypt(key, row, 0.1)])
    again = key_from_bytes(PARAMETERS, key.to_bytes())
    assert (decrypt(again, total, 40) == row).all()
    assert (decrypt(key, encrypt(again, row, 0.1), 40) == row).all()
    with pytest.raises(DecryptionError, match="another key"):
        decrypt(make_run_key(PARAMETERS), total, 40)


def test_keys_of_other_parameters_or_none_are_refused(key: RunKey, keyless: KeylessContext) -> None:
    with pytest.raises(FednerError, match="other parameters"):
        key_from_bytes(CkksParameters(10, modulus_bits=49), key.to_bytes())
    keyless_bytes = keyless.context.serialize(save_secret_key=False)
    with pytest.raises(FednerError, match="without a key"):
        key_from_bytes(PARAMETERS, keyless_bytes)
    for bad in (b"", b"no key", key.to_bytes()[:-100]):
        with pytest.raises(FednerError, match=r"cannot be read|without a key"):
            key_from_bytes(PARAMETERS, bad)
    with pytest.raises(FednerError, match="expected at most"):
        key_from_bytes(PARAMETERS, bytes(1 << 21))


def test_the_server_s_side_has_no_key_and_cannot_decrypt(key: RunKey) -> None:
    row = encrypt(key, np.ones(5), 0.1)
    keyless = keyless_context(PARAMETERS)
    assert not keyless.context.has_secret_key()
    total = summed(keyless, [row])
    vector = tenseal.ckks_vector_from(keyless.context, unpacked(total.data, 1)[0])
    with pytest.raises(ValueError, match="secret_key"):
        vector.decrypt()
    gc.collect()
    reached = gc.get_referents(keyless, keyless.context, vector)
    assert not any(isinstance(each, RunKey) for each in reached)
    assert key.to_bytes()[100:400] not in keyless.context.serialize()


def test_the_same_numbers_never_give_the_same_ciphertext(key: RunKey) -> None:
    one, other = (encrypt(key, np.ones(3), 0.1).data for _ in range(2))
    assert one != other
    assert repr(key).startswith("<")  # no secret in a trace


def _two_in_one(key: RunKey) -> bytes:
    """Return one message of `tenseal` with two ciphertexts of 1,024 numbers each."""
    whole = tenseal.ckks_vector(key.context, [1.0] * 1024, PARAMETERS.scale).serialize()
    sizes, rest = whole[:4], whole[4:]
    assert sizes == b"\n\x02\x80\x08"
    scale = rest[-9:]
    return b"\n\x04\x80\x08\x80\x08" + rest[:-9] * 2 + scale


def test_a_ciphertext_that_is_too_long_is_not_read(key: RunKey, keyless: KeylessContext) -> None:
    sound = unpacked(encrypt(key, np.ones(5), 0.1).data, 1)[0]
    with pytest.raises(FednerError, match=r"a ciphertext of \d+ bytes"):
        RunningSum(keyless, 5).add(Ciphertexts(5, packed(sound + bytes(1 << 17))))


def test_sums_between_whole_numbers_are_noticed_before_anything_is_told_of_them(
    key: RunKey,
) -> None:
    # What a server that lies adds to find out how large the noise is.
    for added in ([0.5] * 5 + [0.0] * 2043, [0.0] * 2047 + [1.0]):
        whole = [7.0] * 5 + [0.0] * 2043
        vector = tenseal.ckks_vector(key.context, whole, PARAMETERS.scale) + added
        with pytest.raises(DecryptionError):
            decrypt(key, Ciphertexts(5, packed(vector.serialize())), 5)


def _product(key: RunKey) -> bytes:
    """Return a ciphertext of three polynomials with the scale of a sum."""
    context = key.context.copy()
    context.auto_relin = context.auto_rescale = False
    vector = tenseal.ckks_vector(context, [1.0] * 2048, math.sqrt(PARAMETERS.scale))
    data: bytes = (vector * vector).serialize()
    return data


def _encrypted(parameters: CkksParameters) -> bytes:
    return encrypt(make_run_key(parameters), np.ones(5), 0.1).data


BAD: dict[str, Callable[[RunKey], bytes]] = {
    "one too many": lambda key: encrypt(key, np.ones(5), 0.1).data + packed(b"x"),
    "none": lambda _: b"",
    "longer": lambda key: encrypt(key, np.ones(2049), 0.1).data,
    "shorter": lambda key: packed(
        tenseal.ckks_vector(key.context, [1.0] * 5, PARAMETERS.scale).serialize()
    ),
    "scale": lambda key: packed(
        tenseal.ckks_vector(key.context, [1.0] * 2048, 2.0**20).serialize()
    ),
    "ring": lambda _: _encrypted(CkksParameters(4, degree=8192)),
    "prime": lambda _: _encrypted(CkksParameters(10, modulus_bits=50)),
    "noise": lambda _: packed(bytes(100)),
    "cut": lambda key: encrypt(key, np.ones(5), 0.1).data[:-7],
    "product": lambda key: packed(_product(key)),
    "two in one": lambda key: packed(_two_in_one(key)),
}


@pytest.mark.parametrize("what", BAD)
def test_a_sum_takes_no_row_of_other_parameters(
    key: RunKey, keyless: KeylessContext, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ciphertexts, "_HEADER_BYTES", 1 << 20)  # too long is another test's
    total = RunningSum(keyless, 5)
    total.add(encrypt(key, np.ones(5), 0.1))
    with pytest.raises(FednerError, match=r"encrypted sum: a ciphertext (that|of other)|a message"):
        total.add(Ciphertexts(5, BAD[what](key)))
    assert total.num_summands == 1
    assert (decrypt(key, total.total(), 5) == 1).all()


def test_a_sum_takes_no_row_of_another_length(key: RunKey, keyless: KeylessContext) -> None:
    with pytest.raises(FednerError, match="a row of 4 numbers; expected 5"):
        RunningSum(keyless, 5).add(encrypt(key, np.ones(4), 0.1))


def test_a_sum_takes_no_more_rows_than_its_noise_allows(
    key: RunKey, keyless: KeylessContext
) -> None:
    total = RunningSum(keyless, 1)
    with pytest.raises(FednerError, match="no row"):
        total.total()
    for _ in range(10):
        total.add(encrypt(key, [1.0], 0.1))
    with pytest.raises(FednerError, match="more rows than 10"):
        total.add(encrypt(key, [1.0], 0.1))
    assert decrypt(key, total.total(), 1) == 10


def test_altered_bytes_are_refused_or_noticed(key: RunKey) -> None:
    """The header byte by byte, then places all over the numbers."""
    row = encrypt(key, np.ones(2048), 1.0).data
    drawn = np.random.default_rng(5)
    places = [*range(80), *drawn.integers(80, len(row), 60).tolist(), *range(-20, 0)]
    num_refused = 0
    for place in places:
        altered = bytearray(row)
        altered[place] ^= int(drawn.integers(1, 256))
        try:
            found = decrypt(key, Ciphertexts(2048, bytes(altered)), 2048)
        except FednerError:
            num_refused += 1
        else:
            assert (found == 1).all()  # a byte that says nothing
    assert num_refused > 100


def test_a_sum_beyond_the_range_is_noticed(key: RunKey, keyless: KeylessContext) -> None:
    # Two platforms that take the whole range each: what a platform that lies could do.
    most = PARAMETERS.largest
    total = summed(keyless, [encrypt(key, [most, 0.0], 1.0) for _ in range(2)])
    with pytest.raises(DecryptionError):
        decrypt(key, total, 2)
