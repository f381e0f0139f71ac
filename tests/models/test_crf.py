"""The CRF against enumeration of all paths, against a slow obvious CRF, and at its edges."""

import math
import sys
from collections.abc import Iterator
from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import fedner.models
from fedner.corpus.schemes import Transitions, allowed_transitions, tag_set
from fedner.errors import FednerError
from fedner.models import crf_chain, crf_kernels, crf_numpy, crf_scan
from fedner.models.crf_chain import Chain, Posterior
from fedner.models.layers.crf import CRF


def to_gpu(chain: Chain) -> Chain:
    return Chain(*(part.cuda() for part in chain))


def to_cpu(part: Tensor) -> Tensor:
    return part.cpu()


KERNELS = {
    "numpy": crf_numpy.posterior,
    "scan": crf_scan.posterior,
    "scan in blocks of 2": lambda chain: crf_scan.posterior(chain, block=2),
    "log space": crf_chain.log_space_posterior,
}
DECODERS = {
    "numpy": crf_numpy.best_paths,
    "scan": crf_scan.best_paths,
    "scan in blocks of 2": lambda chain: crf_scan.best_paths(chain, block=2),
}
if torch.cuda.is_available() and crf_kernels.triton_works(torch.device("cuda", 0)):
    from fedner.models import crf_triton

    KERNELS["Triton"] = lambda chain: Posterior(*map(to_cpu, crf_triton.posterior(to_gpu(chain))))
    DECODERS["Triton"] = lambda chain: tuple(map(to_cpu, crf_triton.best_paths(to_gpu(chain))))
BIOES = allowed_transitions(tag_set(["A", "B"], "BIOES"), "BIOES")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Small products gain nothing from threads, and lose much where cores are shared."""
    given = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(given)


def enumerate_paths(chain: Chain, row: int) -> list[tuple[tuple[int, ...], float]]:
    """Every path of a sentence with its score, from the definition."""
    emissions, start, end, steps = (part.double().tolist() for part in chain[:4])
    length = int(chain.lengths_B[row])
    paths = []
    for path in product(range(len(start)), repeat=length):
        score = sum(emissions[row][t][tag] for t, tag in enumerate(path))
        score += sum(steps[a][b] for a, b in pairwise(path))
        score += start[path[0]] + end[path[-1]] if path else 0.0
        paths.append((path, score))
    return paths


def log_sum(scores: list[float]) -> float:
    top = max(scores, default=-math.inf)
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(math.exp(score - top) for score in scores))


def enumerated(chain: Chain) -> Posterior:
    """The posterior by adding up all paths."""
    num_sentences, num_tokens, num_tags = chain.emissions_BLK.shape
    sums = torch.zeros(num_sentences, dtype=torch.float64)
    marginals = torch.zeros(num_sentences, num_tokens, num_tags, dtype=torch.float64)
    steps = torch.zeros(num_sentences, num_tags, num_tags, dtype=torch.float64)
    for row in range(num_sentences):
        paths = enumerate_paths(chain, row)
        sums[row] = log_sum([score for _, score in paths])
        for path, score in paths:
            if score == -math.inf:
                continue
            probability = math.exp(score - float(sums[row]))
            for t, tag in enumerate(path):
                marginals[row, t, tag] += probability
            for a, b in pairwise(path):
                steps[row, a, b] += probability
    return Posterior(sums, marginals, steps)


def slow_posterior(chain: Chain) -> Posterior:
    """The obvious CRF: textbook recursions over lists, one logarithm at a time."""
    emissions, start, end, steps = (part.double().tolist() for part in chain[:4])
    tags = range(len(start))
    result = Posterior(
        torch.zeros(len(emissions), dtype=torch.float64),
        torch.zeros(chain.emissions_BLK.shape, dtype=torch.float64),
        torch.zeros(len(emissions), len(start), len(start), dtype=torch.float64),
    )
    for row, length in enumerate(chain.lengths_B.tolist()):
        if length == 0:
            continue
        x = emissions[row]
        alpha = [[start[k] + x[0][k] for k in tags]]
        for t in range(1, length):
            alpha.append(
                [log_sum([alpha[-1][i] + steps[i][j] for i in tags]) + x[t][j] for j in tags]
            )
        beta = [list(end)]
        for t in range(length - 1, 0, -1):
            beta.insert(
                0, [log_sum([steps[i][j] + x[t][j] + beta[0][j] for j in tags]) for i in tags]
            )
        total = log_sum([alpha[-1][k] + end[k] for k in tags])
        result.log_partition_B[row] = total
        if total == -math.inf:
            continue
        for t, k in product(range(length), tags):
            result.marginals_BLK[row, t, k] = math.exp(alpha[t][k] + beta[t][k] - total)
        for t, i, j in product(range(1, length), tags, tags):
            joint = alpha[t - 1][i] + steps[i][j] + x[t][j] + beta[t][j] - total
            result.steps_BKK[row, i, j] += math.exp(joint)
    return result


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    """Small batches with ragged lengths, wide or narrow scores and forbidden steps."""
    num_sentences, num_tokens = draw(st.integers(1, 4)), draw(st.integers(0, 5))
    num_tags = draw(st.integers(1, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    scale = draw(st.sampled_from([0.0, 1.0, 30.0, 400.0]))
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))

    def scores(*shape: int, forbidding: float) -> Tensor:
        values = scale * torch.randn(*shape, generator=generator, dtype=dtype)
        forbidden = torch.rand(*shape, generator=generator) < forbidding
        return values.masked_fill(forbidden, -torch.inf)

    share = draw(st.sampled_from([0.0, 0.3, 0.7]))
    lengths = draw(
        st.lists(st.integers(0, num_tokens), min_size=num_sentences, max_size=num_sentences)
    )
    return Chain(
        scores(num_sentences, num_tokens, num_tags, forbidding=draw(st.sampled_from([0.0, 0.2]))),
        scores(num_tags, forbidding=share),
        scores(num_tags, forbidding=share),
        scores(num_tags, num_tags, forbidding=share),
        torch.tensor(lengths),
    )


def random_crf(
    num_tags: int, transitions: Transitions | None = None, scale: float = 1.0, seed: int = 0
) -> CRF:
    crf = CRF(num_tags, transitions)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_(0.0, scale, generator=generator)
    return crf


def randn(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def assert_same(found: Posterior, expected: Posterior, tolerance: float = 1e-9) -> None:
    for name, a, b in zip(Posterior._fields, found, expected, strict=True):
        scale = max([1.0, *b[b.isfinite()].abs().tolist()])
        torch.testing.assert_close(
            a, b, rtol=0.0, atol=tolerance * scale, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("kernel", KERNELS)
@given(chain=chains())
@settings(max_examples=60, deadline=None)
def test_posterior_is_the_sum_over_all_paths(kernel: str, chain: Chain) -> None:
    given_emissions = chain.emissions_BLK.clone()
    assert_same(KERNELS[kernel](chain), enumerated(chain))
    assert torch.equal(chain.emissions_BLK, given_emissions)


@given(chain=chains())
@settings(max_examples=60, deadline=None)
def test_the_slow_crf_is_the_sum_over_all_paths(chain: Chain) -> None:
    assert_same(slow_posterior(chain), enumerated(chain))


@pytest.mark.parametrize("decoder", DECODERS)
@given(chain=chains())
@settings(max_examples=60, deadline=None)
def test_best_paths_are_the_best_of_all_paths(decoder: str, chain: Chain) -> None:
    tags_BL, score_B = DECODERS[decoder](chain)
    for row, length in enumerate(chain.lengths_B.tolist()):
        scores = dict(enumerate_paths(chain, row))
        best = max(scores.values())
        assert float(score_B[row]) == pytest.approx(best, rel=1e-12, abs=1e-9)
        assert tags_BL[row, length:].eq(0).all()
        if best > -math.inf:
            found = scores[tuple(tags_BL[row, :length].tolist())]
            assert found == pytest.approx(best, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scale", [1.0, 25.0])
def test_kernels_agree_with_the_slow_crf_on_longer_sentences(kernel: str, scale: float) -> None:
    crf = random_crf(9, BIOES, scale=2.0)
    chain = crf._chain(scale * randn(5, 40, 9), torch.tensor([3, 40, 0, 33, 32]))
    assert_same(KERNELS[kernel](chain), slow_posterior(chain), 1e-10)


@pytest.mark.parametrize("kernel", sorted({*KERNELS} - {"log space"}))
@pytest.mark.parametrize("transitions", [None, BIOES])
@pytest.mark.parametrize("width", [1.0, 50.0])
def test_a_thousand_tokens_in_single_precision(
    kernel: str, transitions: Transitions | None, width: float
) -> None:
    crf = random_crf(9, transitions)
    emissions = width * (
        2.0 * torch.rand(3, 1000, 9, generator=torch.Generator().manual_seed(3)) - 1
    )
    chain = crf._chain(emissions, torch.tensor([1000, 1, 700]))
    exact = crf_chain.log_space_posterior(chain)
    assert_same(KERNELS[kernel](chain), exact, 1e-9)


@pytest.mark.parametrize("kernel", sorted({*KERNELS} - {"log space"}))
def test_a_path_that_only_log_space_can_follow(kernel: str) -> None:
    # Two tags that never mix: tag 1 is e**-100 a token behind for 20 tokens and wins at the end.
    # As a plain product of probabilities it would have been rounded to nothing long before.
    steps = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]])
    emissions = torch.tensor([[0.0, -100.0]]).repeat(20, 1)
    emissions = torch.stack(
        (torch.cat((emissions, torch.tensor([[-2001.0, 0.0]]))), torch.zeros(21, 2))
    )
    chain = Chain(emissions, torch.zeros(2), torch.zeros(2), steps, torch.tensor([21, 21]))
    expected = slow_posterior(chain)
    assert float(expected.marginals_BLK[0, 0, 1]) == pytest.approx(1 / (1 + math.exp(-1)))
    assert_same(KERNELS[kernel](chain), expected)


@pytest.mark.parametrize("transitions", [None, BIOES])
def test_gradients_pass_gradcheck(transitions: Transitions | None) -> None:
    crf = random_crf(9, transitions).double()
    emissions = randn(3, 5, 9, dtype=torch.float64).requires_grad_()
    lengths = torch.tensor([5, 0, 3])
    tags = torch.tensor([[0, 1, 3, 0, 8], [0] * 5, [5, 6, 7, 0, 0]])
    assert set(tag_set(["A", "B"], "BIOES")[1:5]) == {"B-A", "I-A", "E-A", "S-A"}
    inside = torch.rand(3, 5, 9, generator=torch.Generator().manual_seed(5)) < 0.5
    allowed = inside | torch.nn.functional.one_hot(tags, 9).bool()

    def values(*inputs: Tensor) -> tuple[Tensor, ...]:
        replaced = dict(zip(("start", "end", "transitions"), inputs[1:], strict=True))
        outputs = []
        for call in (
            lambda: crf.log_likelihood(inputs[0], tags, lengths),
            lambda: crf.partial_log_likelihood(inputs[0], allowed, lengths),
            lambda: crf.log_partition(inputs[0], lengths),
        ):
            kept = {name: crf._parameters[name] for name in replaced}
            crf._parameters.update(replaced)
            outputs.append(call())
            crf._parameters.update(kept)
        return tuple(outputs)

    inputs = (emissions, *(p.detach().clone().requires_grad_() for p in crf.parameters()))
    assert torch.autograd.gradcheck(values, inputs)


def test_gradients_are_those_of_backpropagation_through_the_recursion() -> None:
    crf = random_crf(4)
    emissions = randn(2, 6, 4).requires_grad_()
    tags, lengths = torch.randint(4, (2, 6)), torch.tensor([6, 4])
    weights = torch.tensor([0.3, -2.0])
    (crf.log_likelihood(emissions, tags, lengths) * weights).sum().backward()
    found = [emissions.grad, *(parameter.grad for parameter in crf.parameters())]
    total = torch.zeros(())
    for row, length in enumerate(lengths.tolist()):
        x, y = emissions[row], tags[row]
        alpha = crf.start + x[0]
        for t in range(1, length):
            alpha = torch.logsumexp(alpha[:, None] + crf.transitions, 0) + x[t]
        gold = crf.start[y[0]] + crf.end[y[length - 1]] + x[range(length), y[:length]].sum()
        gold = gold + crf.transitions[y[: length - 1], y[1:length]].sum()
        total = total + weights[row] * (gold - torch.logsumexp(alpha + crf.end, 0))
    expected = torch.autograd.grad(total, [emissions, *crf.parameters()])
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_sentence_gradients_are_those_of_one_sentence_at_a_time() -> None:
    crf = random_crf(9, BIOES)
    emissions, lengths = randn(3, 4, 9), torch.tensor([4, 2, 0])
    tags = torch.tensor([[0, 1, 2, 3], [4, 8, -100, -100], [-1] * 4])
    gradients = crf.sentence_gradients(emissions, tags, lengths)
    for row in range(3):
        one = slice(row, row + 1)
        crf.zero_grad()
        alone = emissions[one].clone().requires_grad_()
        value = crf.log_likelihood(alone, tags[one], lengths[one])
        value.sum().backward()
        expected = [value.squeeze(), alone.grad[0], *(p.grad for p in crf.parameters())]
        found = [gradients.value_B, gradients.emissions_BLK, *gradients.parameters]
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a[row].float(), b, rtol=1e-5, atol=1e-6)


def test_pairwise_expectations_are_the_enumerated_ones() -> None:
    crf = random_crf(3)
    emissions, lengths = randn(3, 4, 3), torch.tensor([4, 1, 0])
    expected = enumerated(crf._chain(emissions, lengths))
    start, end, steps = crf.pairwise_expectations(emissions, lengths)
    torch.testing.assert_close(steps, expected.steps_BKK)
    torch.testing.assert_close(start, expected.marginals_BLK[:, 0])
    torch.testing.assert_close(end[0], expected.marginals_BLK[0, 3])
    torch.testing.assert_close(end[1], start[1])
    assert start[2].eq(0).all()
    assert end[2].eq(0).all()
    assert steps[1:].eq(0).all()


@given(seed=st.integers(0, 1000), length=st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_partial_likelihood_adds_up_the_allowed_paths(seed: int, length: int) -> None:
    crf = random_crf(3, seed=seed)
    emissions, lengths = randn(2, length, 3, seed=seed), torch.tensor([length, length // 2])
    allowed = randn(2, length, 3, seed=seed + 1) > 0
    allowed[..., 0] = True
    found = crf.partial_log_likelihood(emissions, allowed, lengths).detach()
    for row in range(2):
        paths = enumerate_paths(crf._chain(emissions, lengths), row)
        inside = [s for p, s in paths if all(allowed[row, t, k] for t, k in enumerate(p))]
        expected = log_sum(inside) - log_sum([score for _, score in paths])
        assert float(found[row]) == pytest.approx(expected, abs=1e-5)


def test_partial_likelihood_between_everything_and_one_path() -> None:
    crf = random_crf(9, BIOES)
    emissions, lengths = randn(2, 4, 9), torch.tensor([4, 3])
    tags = torch.tensor([[0, 1, 2, 3], [4, 8, 0, 0]])
    everything = torch.ones(2, 4, 9, dtype=torch.bool)
    one_path = torch.nn.functional.one_hot(tags, 9).bool()
    free = crf.partial_log_likelihood(emissions, everything, lengths)
    gold = crf.partial_log_likelihood(emissions, one_path, lengths)
    torch.testing.assert_close(free, torch.zeros(2))
    torch.testing.assert_close(gold, crf.log_likelihood(emissions, tags, lengths))


def test_forbidden_steps_have_probability_zero_and_no_gradient() -> None:
    crf = random_crf(9, BIOES)
    with torch.no_grad():
        crf.transitions += 50.0 * crf.forbidden_transitions  # what they hold must not matter
    emissions, lengths = 5.0 * randn(8, 12, 9), torch.full((8,), 12)
    start, end, steps = crf.pairwise_expectations(emissions, lengths)
    assert steps[:, crf.forbidden_transitions].eq(0).all()
    assert start[:, crf.forbidden_start].eq(0).all()
    assert end[:, crf.forbidden_end].eq(0).all()
    tags, _ = crf.viterbi(emissions, lengths)
    assert not crf.forbidden_transitions[tags[:, :-1], tags[:, 1:]].any()
    crf.log_likelihood(emissions, tags, lengths).sum().backward()
    assert crf.transitions.grad is not None
    assert crf.transitions.grad[crf.forbidden_transitions].eq(0).all()
    assert all(parameter.grad.isfinite().all() for parameter in crf.parameters())


@pytest.mark.parametrize(
    ("tags", "where"),
    [
        ([2, 3, 0], "begins with tag 2"),
        ([0, 2, 3], "steps from tag 0 to tag 2 at token 1"),
        ([0, 0, 1], "ends with tag 1"),
    ],
)
def test_a_forbidden_gold_path_is_refused(tags: list[int], where: str) -> None:
    crf = CRF(9, BIOES)
    with pytest.raises(FednerError, match=where):
        crf.log_likelihood(
            torch.zeros(2, 3, 9), torch.tensor([[0, 0, 0], tags]), torch.tensor([3, 3])
        )


def test_a_sentence_without_any_path_is_refused() -> None:
    never = Transitions((True, False), (False, True), ((True, False), (True, True)))
    crf = CRF(2, never)
    emissions, lengths = torch.zeros(2, 3, 2), torch.tensor([0, 3])
    for call in (crf.log_partition, crf.marginals, crf.viterbi, crf.pairwise_expectations):
        with pytest.raises(FednerError, match=r"sentence 1 of the batch \(3 tokens\) has no path"):
            call(emissions, lengths)
    nothing = torch.zeros(2, 3, 2, dtype=torch.bool)
    with pytest.raises(FednerError, match="no path within the allowed tags"):
        CRF(2).partial_log_likelihood(emissions, nothing, lengths)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_any_floating_type(dtype: torch.dtype) -> None:
    crf = random_crf(5)
    emissions = randn(2, 7, 5).to(dtype).requires_grad_()
    tags, lengths = torch.zeros(2, 7, dtype=torch.int64), torch.tensor([7, 2])
    value = crf.log_likelihood(emissions, tags, lengths)
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    value.sum().backward()
    assert emissions.grad is not None
    assert emissions.grad.dtype == dtype
    reference = crf.log_likelihood(emissions.detach().double(), tags, lengths)
    torch.testing.assert_close(value.double(), reference, rtol=1e-6, atol=1e-5)


def test_under_autocast() -> None:
    crf = random_crf(5)
    layer = torch.nn.Linear(3, 5)
    tags, lengths = torch.zeros(2, 7, dtype=torch.int64), torch.tensor([7, 2])
    with torch.autocast("cpu", torch.bfloat16):
        emissions = layer(randn(2, 7, 3))
        value = crf.log_likelihood(emissions, tags, lengths)
        value.sum().backward()
    assert emissions.dtype == torch.bfloat16
    assert value.dtype == torch.float32
    assert layer.weight.grad.isfinite().all()
    reference = crf.log_likelihood(emissions.detach().float(), tags, lengths)
    torch.testing.assert_close(value, reference)


def test_empty_batches_and_sentences() -> None:
    crf = random_crf(4)
    for num_sentences, num_tokens in ((0, 3), (2, 0), (0, 0), (3, 2)):
        emissions = torch.randn(num_sentences, num_tokens, 4, requires_grad=True)
        lengths = torch.zeros(num_sentences, dtype=torch.int64)
        tags = torch.full((num_sentences, num_tokens), -100)
        everything = torch.ones(emissions.shape, dtype=torch.bool)
        value = crf.log_likelihood(emissions, tags, lengths)
        partial = crf.partial_log_likelihood(emissions, everything, lengths)
        (value + partial + crf.log_partition(emissions, lengths)).sum().backward()
        assert torch.equal(value, torch.zeros(num_sentences))
        assert emissions.grad is not None
        assert emissions.grad.eq(0).all()
        assert crf.marginals(emissions, lengths).eq(0).all()
        best, score = crf.viterbi(emissions, lengths)
        assert best.shape == (num_sentences, num_tokens)
        assert score.eq(0).all()
        for kernel in KERNELS.values():
            posterior = kernel(crf._chain(emissions, lengths))
            assert all(part.eq(0).all() for part in posterior[::2])


def test_padding_is_never_read() -> None:
    crf = random_crf(4)
    emissions, lengths = randn(3, 5, 4), torch.tensor([2, 5, 0])
    tags = torch.randint(4, (3, 5))
    spoiled = emissions.clone()
    spoiled[0, 2:], spoiled[2] = torch.nan, torch.inf
    spoiled.requires_grad_()
    value = crf.log_likelihood(spoiled, tags, lengths)
    value.sum().backward()
    assert torch.equal(value, crf.log_likelihood(emissions, tags, lengths))
    assert spoiled.grad is not None
    assert spoiled.grad.isfinite().all()
    assert spoiled.grad[0, 2:].eq(0).all()
    assert torch.equal(crf.viterbi(spoiled, lengths)[0], crf.viterbi(emissions, lengths)[0])
    for kernel in ("scan", "log space"):
        found = KERNELS[kernel](crf._chain(spoiled, lengths))
        assert_same(found, KERNELS[kernel](crf._chain(emissions, lengths)))


def test_a_diverged_sentence_spoils_no_other() -> None:
    crf = random_crf(4)
    emissions, lengths = randn(2, 5, 4), torch.tensor([5, 5])
    emissions[0, 1, 2] = torch.nan
    value = crf.log_likelihood(emissions, torch.zeros(2, 5, dtype=torch.int64), lengths)
    assert value.isnan().tolist() == [True, False]


def test_sentences_do_not_depend_on_their_batch() -> None:
    crf = random_crf(9, BIOES)
    emissions, lengths = 3.0 * randn(6, 30, 9), torch.tensor([4, 30, 0, 17, 30, 1])
    together = crf.marginals(emissions, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = crf.marginals(emissions[row : row + 1, :length], lengths[row : row + 1])
        torch.testing.assert_close(together[row, :length], alone[0], rtol=1e-6, atol=1e-9)
    assert torch.equal(together, crf.marginals(emissions, lengths))


def test_the_state_holds_three_parameters_and_nothing_else() -> None:
    shapes = {name: tuple(value.shape) for name, value in CRF(9, BIOES).state_dict().items()}
    assert shapes == {"start": (9,), "end": (9,), "transitions": (9, 9)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((2, 3, 4), [3, 3]), "emissions of shape"),
        (((2, 3, 5), [3]), "lengths of shape"),
        (((2, 3, 5), [3, 4]), "lengths from 3 to 4"),
        (((2, 3, 5), [-1, 3]), "lengths from -1 to 3"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    arguments: tuple[tuple[int, ...], list[int]], message: str
) -> None:
    shape, lengths = arguments
    with pytest.raises(FednerError, match=message):
        CRF(5).viterbi(torch.zeros(shape), torch.tensor(lengths))


def test_tags_that_do_not_fit_are_refused() -> None:
    crf, emissions, lengths = CRF(5), torch.zeros(1, 2, 5), torch.tensor([2])
    for tags, message in (([[0, 5]], "tag 5"), ([[-100, 0]], "tag -100"), ([[0]], "of shape")):
        with pytest.raises(FednerError, match=message):
            crf.log_likelihood(emissions, torch.tensor(tags), lengths)
    with pytest.raises(FednerError, match="allowed tags of type"):
        crf.partial_log_likelihood(emissions, torch.ones(1, 2, 5), lengths)
    with pytest.raises(FednerError, match="transitions for"):
        CRF(5, BIOES)
    with pytest.raises(FednerError, match="at least 1"):
        CRF(0)


def test_plain_torch_takes_over_where_triton_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crf_kernels, "find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "fedner.models.crf_triton", None)  # importing it now fails
    monkeypatch.delattr(fedner.models, "crf_triton", raising=False)
    crf_kernels.triton_works.cache_clear()
    with pytest.warns(UserWarning, match="Triton does not work on cpu"):
        assert not crf_kernels.triton_works(torch.device("cpu"))
    crf_kernels.triton_works.cache_clear()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("has_triton", [True, False])
@pytest.mark.parametrize("transitions", [None, BIOES])
def test_an_accelerator_gives_the_same(
    transitions: Transitions | None, has_triton: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_triton:
        monkeypatch.setattr(crf_kernels, "triton_works", lambda _: False)
    here = random_crf(9, transitions)
    there = random_crf(9, transitions).cuda()
    emissions, lengths = 3.0 * randn(6, 70, 9), torch.tensor([4, 70, 0, 17, 33, 1])
    tags, score = here.viterbi(emissions, lengths)
    allowed = torch.nn.functional.one_hot(tags, 9).bool() | (randn(6, 70, 9) > 0)
    results = []
    for crf, device in ((here, "cpu"), (there, "cuda")):
        x = emissions.to(device, copy=True).requires_grad_()
        values = crf.log_likelihood(x, tags.to(device), lengths)
        partial = crf.partial_log_likelihood(x, allowed.to(device), lengths.to(device))
        (values + 0.5 * partial + 0.1 * crf.log_partition(x, lengths)).sum().backward()
        gradients = [x.grad, *(parameter.grad for parameter in crf.parameters())]
        results.append([values, partial, crf.marginals(x, lengths), *gradients])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b.cpu(), rtol=1e-5, atol=1e-5)
    best, best_score = there.viterbi(emissions.cuda(), lengths.cuda())
    assert torch.equal(best.cpu(), tags)
    torch.testing.assert_close(best_score.cpu(), score)
