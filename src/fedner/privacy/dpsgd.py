r"""DP-SGD's clipped sum of per-unit gradients, exact, at about the price of a plain step.

Abadi et al. (2016), "Deep learning with differential privacy", lines 5-6 of algorithm 1:

    sum over units u of  g_u * min(1, C / |g_u|),    g_u = gradient of the unit's summed loss,

where |g_u| is taken over *all* trained parameters together, shared and private: one joint bound.

One forward and one backward pass give the gradient at the output of every layer. From it and the
layer's inputs follow the norms |g_u|, by products of tokens (Goodfellow 2015; Rochette et al. 2019)
or by small per-unit gradients, whichever is cheaper; then one weighted product for each layer gives
the sum. No unit's gradient of a large layer is ever stored and nothing is run twice. Each layer has
its per-unit gradient beside its forward pass (`models.layers`). What differs from the literature:
the LSTM's recurrence is taken out of the fused layer (SCIENCE: point 7), the character CNN is
measured over the distinct words of each unit, and the CRF has per-sentence gradients from its own
forward-backward.

The weights may come from an attacker. Four things hold whatever finite weights there are:
  1. A token's values and gradients follow from its own sentence alone, to the last bit: padding is
     zero, and products are added up in one order (`models.per_unit.products`).
  2. A unit whose values are not finite contributes exactly nothing and changes no other unit.
  3. From the tokens on everything is float64: norms, factors, sums.
  4. What rounding can do there is about 1e-16 of a unit's *mass*, the sum of the norms of all terms
     of its gradient. A factor bounds the mass too, by `MASS` times the bound, so that cancelling
     terms cannot hide anything. Honest gradients stay far below that (docs/privacy.md).

Shapes: B sentences, L tokens, U units, K tags, D features.
"""

import logging
import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedner.errors import FednerError
from fedner.models.features import Batch, EncodedCorpus, collate
from fedner.models.layers.forms import Missing, SentenceGradients
from fedner.models.layers.table import decoder_forms, missing_form
from fedner.models.partition import lies_under
from fedner.models.per_unit.products import one_thread
from fedner.models.per_unit.sentences import measure_sentences
from fedner.models.per_unit.tap import Factors, Measured, Tap, Totals
from fedner.models.per_unit.units import Sizes, Units, units_of
from fedner.models.stages import Stage, walk
from fedner.models.tagger import Tagger
from fedner.privacy.noise import Clipped
from fedner.privacy.sampling import PoissonSample

_log = logging.getLogger(__name__)  # the platform's own: it never leaves

Loss = Literal["sum", "mean"]
Unit = tuple[int, NDArray[np.int64]]  # its number, and its sentences by index in the corpus

# Cells (sentences times tokens of the longest) of a micro-batch: caches on a CPU, memory elsewhere.
CPU_CELLS = 2_048
DEVICE_CELLS = 65_536
# How much larger than the bound the mass of a clipped gradient may be.
MASS = 1_000.0
_PURPOSE = "per-unit gradient"


def clipped_sum(
    tagger: Tagger,
    batch: Batch,
    units_B: Sequence[int] | NDArray[np.int64],
    max_grad_norm: float,
    *,
    loss: Loss = "sum",
) -> tuple[Clipped, Tensor]:
    """Return the sum of clipped per-unit gradients over one batch.

    Guarantee:
        Each unit's gradient over all trained parameters together enters with a norm of at most
        `max_grad_norm`, for any finite weights, so adding or removing one unit moves the sum by at
        most `max_grad_norm` (both up to a millionth), provided that a unit's sentences are all in
        this batch.

    Edge cases:
        A unit whose gradient is not finite contributes nothing; a unit without a sentence has norm
        0. A unit whose terms cancel almost wholly contributes less than the bound (`MASS`). Dropout
        draws one mask for norms and sum alike. For an empty sample see `accumulate`.

    Args:
        tagger: The tagger, in training or evaluation mode; left as it is.
        batch: The sentences.
        units_B: For each row of the batch the number of its unit, from 0. Rows are in the order of
            `batch.sentences`, longest first, not in the order that `collate` was asked for: for a
            `sampling.PoissonSample` use `clipped_sample`.
        max_grad_norm: The largest norm of a unit's gradient.
        loss: A sentence's negative log-likelihood as it is ("sum" over its tokens) or over the
            number of its tokens ("mean").

    Returns:
        The named sum and (U) the norm of each unit's gradient before clipping, all in float64: in
        float32 a large sum would lose more than the bound allows. The norms are as sensitive as
        the data: they are for the platform's own eyes.

    Raises:
        FednerError: The tagger trains something that has no per-unit gradient, such as a
            pretrained encoder, or the arguments do not fit each other.
    """
    totals = _zero_totals(tagger, max_grad_norm)
    norms_U = _add_clipped(_measured(tagger, batch, units_B, loss), max_grad_norm, totals)
    return Clipped(totals, max_grad_norm), norms_U


def accumulate(
    tagger: Tagger,
    corpus: EncodedCorpus,
    units: Sequence[Sequence[int] | NDArray[np.int64]],
    max_grad_norm: float,
    *,
    loss: Loss = "sum",
    cells: int | None = None,
) -> tuple[Clipped, Tensor]:
    """Return the sum of clipped per-unit gradients over a logical batch of any size.

    Guarantee:
        That of `clipped_sum`. Units are never split over micro-batches, so their size changes
        nothing but time and memory (and the dropout masks).

    Edge cases:
        No unit, or units of empty sentences alone: a sum of zeros, to be noised like any other.
        A micro-batch that fails (memory, a sentence that a layer refuses) is worked on again unit
        by unit; a unit that fails alone contributes nothing.

    Args:
        tagger: The tagger.
        corpus: The platform's sentences.
        units: For each drawn unit its sentences, by index in the corpus; those without a token
            are left out.
        max_grad_norm: The largest norm of a unit's gradient.
        loss: See `clipped_sum`.
        cells: Sentences times tokens of the longest in a micro-batch, at most, unless one unit
            alone has more; None for what suits the device.

    Returns:
        The named sum, and the norm of each unit's gradient, in the order of `units`.
    """
    totals = _zero_totals(tagger, max_grad_norm)
    device = corpus.device
    norms_U = torch.zeros(len(units), dtype=torch.float64, device=device)
    if cells is None:
        cells = CPU_CELLS if device.type == "cpu" else DEVICE_CELLS
    for chosen in _whole_units(corpus.lengths, units, cells):
        places = torch.tensor([unit for unit, _ in chosen], device=device)
        measured = _measured_units(tagger, corpus, chosen, loss)
        if measured is not None:
            norms_U[places] = _add_clipped(measured, max_grad_norm, totals)
            continue
        for unit in chosen:
            alone = _measured_units(tagger, corpus, [unit], loss)
            norms_U[unit[0]] = (
                torch.inf if alone is None else _add_clipped(alone, max_grad_norm, totals)[0]
            )
    return Clipped(totals, max_grad_norm), norms_U


def clipped_sample(
    tagger: Tagger,
    corpus: EncodedCorpus,
    sample: PoissonSample,
    max_grad_norm: float,
    *,
    loss: Loss = "sum",
    cells: int | None = None,
) -> tuple[Clipped, Tensor]:
    """Return the sum of clipped per-unit gradients over a Poisson sample: see `accumulate`."""
    units: list[list[int]] = [[] for _ in range(sample.num_units)]
    for sentence, unit in zip(sample.sentences, sample.units_B, strict=True):
        units[unit].append(sentence)
    return accumulate(tagger, corpus, units, max_grad_norm, loss=loss, cells=cells)


def _whole_units(
    lengths: NDArray[np.int64],
    units: Sequence[Sequence[int] | NDArray[np.int64]],
    cells: int,
) -> Iterator[list[Unit]]:
    """Yield (number, sentences) of the units of each micro-batch, units of like length together."""
    present: list[tuple[int, int, NDArray[np.int64]]] = []
    seen: set[int] = set()
    for number, unit in enumerate(units):
        sentences = np.asarray(unit, dtype=np.int64)
        sentences = sentences[lengths[sentences] > 0]
        if len(sentences):
            present.append((int(lengths[sentences].max()), number, sentences))
        if len(set(sentences.tolist())) < len(sentences) or not seen.isdisjoint(sentences.tolist()):
            raise FednerError(
                f"unit {number} of the sample has a sentence twice, or one of another unit",
                "A sentence belongs to one unit and is drawn once: only then is clipping a bound.",
            )
        seen.update(sentences.tolist())
    present.sort(key=lambda each: (-each[0], each[1]))
    chosen: list[Unit] = []
    longest = num_sentences = 0
    for length, number, sentences in present:
        # The first unit of a micro-batch has its longest sentence.
        if chosen and (num_sentences + len(sentences)) * longest > cells:
            yield chosen
            chosen, num_sentences = [], 0
        longest = longest if chosen else length
        chosen.append((number, sentences))
        num_sentences += len(sentences)
    if chosen:
        yield chosen


def _zero_totals(tagger: Tagger, max_grad_norm: float) -> Totals:
    """Return zeros for all that is trained, once it is sure that each of it can be clipped."""
    if not (math.isfinite(max_grad_norm) and max_grad_norm > 0):
        raise FednerError(f"The clipping bound is {max_grad_norm}; expected a number above 0.")
    trained = {name: each for name, each in tagger.named_parameters() if each.requires_grad}
    if not trained:
        raise FednerError(
            "The tagger trains nothing.", "Unfreeze the modules that should be trained."
        )
    _check_forms(tagger, set(trained))
    return {
        name: torch.zeros_like(each, dtype=torch.float64, requires_grad=False)
        for name, each in trained.items()
    }


def _check_forms(tagger: Tagger, trained: set[str]) -> None:
    """Refuse what is trained without a per-unit gradient, and what such gradients cannot pass."""
    stages = tagger.stages
    for stage in stages.all:
        form = stage.forms.per_unit
        owned = sorted(name for name in trained if lies_under(name, stage.name))
        trained -= set(owned)
        # A frozen source needs no form of its own: nothing goes back through it.
        if isinstance(form, Missing) and (owned or stage in stages.encoders):
            purpose = f"{_PURPOSE}, but trains {len(owned)} parameters" if owned else _PURPOSE
            raise missing_form(stage.name, stage.layer, form, purpose)
    _decoder_gradients(tagger.decoder)
    unknown = sorted(name for name in trained if not lies_under(name, "decoder"))
    if unknown:
        raise FednerError(
            f"There is no per-unit gradient for {', '.join(unknown)}: no stage of the tagger.",
            "Freeze it, or make its layer a stage of the tagger.",
        )


def _decoder_gradients(decoder: nn.Module) -> SentenceGradients:
    """Return what gives the gradients of each sentence's own loss.

    Raises:
        FednerError: The decoder has no such form.
    """
    form = decoder_forms(decoder).sentence_gradients
    if isinstance(form, Missing):
        raise missing_form("decoder", decoder, form, _PURPOSE)
    return form


def _measured_units(
    tagger: Tagger, corpus: EncodedCorpus, chosen: Sequence[Unit], loss: Loss
) -> list[Measured] | None:
    """Return every layer measured for some units; None if that fails, as it may for single ones.

    An error here depends on the data: it must neither leave nor change what other units add.
    """
    try:
        batch = collate(corpus, np.concatenate([sentences for _, sentences in chosen]))
        unit_of = {
            int(sentence): number
            for number, (_, sentences) in enumerate(chosen)
            for sentence in sentences
        }
        units_B = [unit_of[sentence] for sentence in batch.sentences.tolist()]
        return _measured(tagger, batch, units_B, loss)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is these units' own affair
        _log.warning(
            "%d units (%d sentences) could not be worked on%s: %s",
            len(chosen),
            sum(len(sentences) for _, sentences in chosen),
            " together, each is tried alone" if len(chosen) > 1 else " and contribute nothing",
            error,
        )
        return None


def _measured(
    tagger: Tagger, batch: Batch, units_B: Sequence[int] | NDArray[np.int64], loss: Loss
) -> list[Measured]:
    """Run a batch forward and back, and measure every trained layer."""
    gap = max(stage.window for stage in tagger.stages.encoders) - 1
    units = units_of(batch, units_B, gap)
    with one_thread(batch.mask_BL.device):
        with torch.enable_grad():
            emissions_BLK, taps = _forward(tagger, batch)
        with torch.no_grad():
            return _measure(tagger, batch, units, loss, emissions_BLK, taps)


@torch.no_grad()
def _add_clipped(measured: Sequence[Measured], max_grad_norm: float, totals: Totals) -> Tensor:
    """Add the clipped gradients of measured units to `totals`; return their norms."""
    squares_U, masses_U = (
        torch.stack(each).sum(0) for each in zip(*(each.sizes_U for each in measured), strict=True)
    )
    norms_U = squares_U.sqrt()
    factors = _factors(norms_U, masses_U, max_grad_norm)
    for each in measured:
        each.add_weighted(factors, totals)
    return norms_U


def _forward(tagger: Tagger, batch: Batch) -> tuple[Tensor, list[Tap]]:
    """Run the tagger with its weights held fixed; return the emissions and every trained layer."""
    taps: list[Tap] = []
    padding_BL1 = ~batch.mask_BL.unsqueeze(2)

    def run(stage: Stage, parts: Sequence[Tensor]) -> Tensor:
        if isinstance(stage.forms.per_unit, Missing):
            with torch.no_grad():
                frozen_BLD = stage.forms.forward(stage.layer, parts, batch)
            return frozen_BLD.masked_fill(padding_BL1, 0.0)
        output_BLD, found = stage.forms.per_unit(stage.layer, stage.name, parts, batch)
        taps.extend(found)
        return output_BLD

    def settle(_stage: Stage, x_BLD: Tensor, following: Stage | None) -> Tensor:
        if following is None:
            embedded_BLD: Tensor = tagger.embeddings.dropout(x_BLD)
            return embedded_BLD
        encoded_BLD: Tensor = tagger.dropout(x_BLD)
        # Norms go by the cells of a sentence: nothing may stand behind its end.
        return encoded_BLD.masked_fill(padding_BL1, 0.0)

    emissions_BLK = walk(tagger.stages, run, settle)
    return emissions_BLK, taps


def _measure(
    tagger: Tagger,
    batch: Batch,
    units: Units,
    loss: Loss,
    emissions_BLK: Tensor,
    taps: Sequence[Tap],
) -> list[Measured]:
    """Go back from each sentence's loss to every layer."""
    # Forward-backward looks at a whole batch: what is not finite must not come near it.
    lost_B = ~(emissions_BLK.isfinite() | ~batch.mask_BL.unsqueeze(2)).flatten(1).all(1)
    emissions_in_BLK = emissions_BLK.detach().masked_fill(lost_B[:, None, None], 0.0)
    into_BLK, parameters = _decoder_gradients(tagger.decoder)(
        tagger.decoder, emissions_in_BLK, batch.gold_tags, batch.lengths_B
    )
    if loss == "mean":
        share_B = batch.lengths_B.to(into_BLK.device, torch.float64).reciprocal()
        into_BLK = into_BLK * share_B.to(into_BLK)[:, None, None]
        parameters = {
            name: each * share_B.to(each).view(-1, *[1] * (each.dim() - 1))
            for name, each in parameters.items()
        }
    measured = [_lost_units(lost_B, units)]
    measured += [measure_sentences("decoder", parameters, units)] if parameters else []
    if taps:
        outputs = [tap.output for tap in taps]
        gradients = torch.autograd.grad(emissions_BLK, outputs, into_BLK)
        measured += [
            tap.measure(gradient, units) for tap, gradient in zip(taps, gradients, strict=True)
        ]
    return measured


def _lost_units(lost_B: Tensor, units: Units) -> Measured:
    """Return what adds nothing, and an infinite size to units with a lost sentence."""
    lost_U = units.sums(lost_B.double()) > 0
    size_U = torch.zeros_like(lost_U, dtype=torch.float64).masked_fill_(lost_U, torch.inf)
    return Measured(Sizes(size_U, size_U), lambda _factors, _totals: None)


def _factors(norms_U: Tensor, masses_U: Tensor, max_grad_norm: float) -> Factors:
    """Return min(1, max_grad_norm / size), and 0 for a unit whose size is not finite."""
    sizes_U = torch.maximum(norms_U, masses_U / MASS)
    lost_U = ~sizes_U.isfinite()
    factor_U = (max_grad_norm / sizes_U.clamp_min(max_grad_norm)).masked_fill(lost_U, 0.0)
    # Looking whether there is a lost unit would make an accelerator's host wait; a mask does not.
    is_sound = norms_U.device.type == "cpu" and not bool(lost_U.any())
    return Factors(factor_U, None if is_sound else lost_U)
