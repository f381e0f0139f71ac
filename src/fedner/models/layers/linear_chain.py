"""What all linear-chain CRFs have in common: likelihood, marginals and best paths of tags.

log p(y|x) = start[y1] + sum_t emission[t, yt] + sum_t transitions[y(t-1), yt] + end[yL] - log Z(x)

Gradients are written down rather than traced: the gradient of log Z with respect to any score is
how often a path is expected to use that score, which one forward-backward gives for all of them and
for each sentence by itself (what DP-SGD needs). A scheme's forbidden transitions weigh minus
infinity: paths through them have probability 0 exactly, whatever the parameters hold there.

Forward-backward runs in float64 inside, whatever the emissions are: in NumPy on the CPU
(`crf_numpy`), in one Triton kernel on CUDA (`crf_triton`), as a parallel scan in plain torch where
neither serves (`crf_scan`). On the CPU results are deterministic.

Shapes: B sentences, L tokens, K tags.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from fedner.corpus.schemes import Transitions
from fedner.errors import FednerError
from fedner.models import crf_kernels
from fedner.models.crf_chain import Chain, Posterior, path_score, token_mask


class Potentials(NamedTuple):
    """What a chain adds to the emissions; what the scheme forbids is not looked at.

    Attributes:
        start_K: The score of beginning with each tag.
        end_K: The score of ending with each tag.
        transitions_KK: The score of stepping from one tag (row) to the next (column).
    """

    start_K: Tensor
    end_K: Tensor
    transitions_KK: Tensor


class ParameterCounts(NamedTuple):
    """For each sentence, how often its paths are expected to use each parameter.

    Attributes:
        start_BK: The probability of beginning with each tag.
        end_BK: The probability of ending with each tag.
        transitions_BKK: The expected number of steps from one tag (row) to the next (column).
    """

    start_BK: Tensor
    end_BK: Tensor
    transitions_BKK: Tensor


class SentenceGradients(NamedTuple):
    """A value for each sentence, and its gradient for each sentence by itself.

    Attributes:
        value_B: The value, in float64.
        emissions_BLK: Its gradient with respect to the emissions.
        parameters: Its gradient with respect to start, end and transitions, in float64.
    """

    value_B: Tensor
    emissions_BLK: Tensor
    parameters: ParameterCounts


class LinearChain(nn.Module):
    """The decoder of a tagger: scores of tag sequences from scores of single tags.

    The scores of beginning, ending and stepping are those of `potentials`. Sentences may
    be empty: their log-likelihood and log-partition are 0. Emissions behind a sentence's end are
    never read and get gradient 0.

    Attributes:
        num_tags: How many tags there are.
        is_constrained: Whether the steps that the scheme forbids are known.
    """

    forbidden_start: Tensor
    forbidden_end: Tensor
    forbidden_transitions: Tensor

    def __init__(self, num_tags: int, transitions: Transitions | None = None) -> None:
        super().__init__()
        if num_tags < 1:
            raise FednerError(f"CRF: found {num_tags} tags; expected at least 1")
        self.num_tags = num_tags
        self.is_constrained = transitions is not None
        # Not saved: they follow from the scheme, which a checkpoint records by name.
        for name, mask in _forbidden(num_tags, transitions).items():
            self.register_buffer(f"forbidden_{name}", mask, persistent=False)

    def extra_repr(self) -> str:
        """Return what `print` shows."""
        return f"num_tags={self.num_tags}, is_constrained={self.is_constrained}"

    def potentials(self) -> Potentials:
        """Return the scores of beginning, ending and stepping, as functions of the parameters."""
        raise NotImplementedError

    def log_likelihood(self, emissions_BLK: Tensor, tags_BL: Tensor, lengths_B: Tensor) -> Tensor:
        """Return (B,) the log-probability of the gold tags; differentiable once.

        Args:
            emissions_BLK: Scores in any floating type.
            tags_BL: Gold tags; anything may stand behind a sentence's end.
            lengths_B: The number of tokens of each sentence, at most L.

        Raises:
            FednerError: If a gold path takes a forbidden step: its probability is 0, and there is
                nothing to learn from it.
        """
        return self._attach(
            emissions_BLK, self.sentence_gradients(emissions_BLK, tags_BL, lengths_B)
        )

    @torch.no_grad()
    def sentence_gradients(
        self, emissions_BLK: Tensor, tags_BL: Tensor, lengths_B: Tensor
    ) -> SentenceGradients:
        """Return the log-likelihood of the gold tags with each sentence's own gradients.

        The same as `log_likelihood`, detached: per-example gradients without a backward pass.
        """
        chain = self._chain(emissions_BLK, lengths_B)
        tags_BL, mask_BL = _gold_path(chain, tags_BL)
        pairs_BL = tags_BL[:, :-1] * self.num_tags + tags_BL[:, 1:]
        gold_B = path_score(chain, tags_BL, pairs_BL, mask_BL)
        # On a GPU the question would wait for the device at every step; there the likelihood is
        # minus infinity, which the training loop refuses.
        if self.is_constrained and gold_B.device.type == "cpu" and bool(gold_B.isneginf().any()):
            raise _forbidden_path(chain, tags_BL, gold_B)
        posterior = crf_kernels.posterior(chain)
        emissions_BLK = _working(chain, posterior.marginals_BLK).neg_()
        emissions_BLK.scatter_add_(2, tags_BL[..., None], mask_BL[..., None].to(emissions_BLK))
        # Counting in place: every step of the gold path adds one to its sentence's own matrix.
        steps_BKK = posterior.steps_BKK.neg_()
        steps_BKK.flatten(1).scatter_add_(1, pairs_BL, mask_BL[:, 1:].to(steps_BKK))
        parameters = _parameter_counts(emissions_BLK, steps_BKK, chain.lengths_B)
        return SentenceGradients(gold_B - posterior.log_partition_B, emissions_BLK, parameters)

    def partial_log_likelihood(
        self, emissions_BLK: Tensor, allowed_BLK: Tensor, lengths_B: Tensor
    ) -> Tensor:
        """Return (B,) the log-probability of the paths within `allowed`; differentiable once.

        The likelihood of an annotation that leaves tags open: where a platform does not annotate a
        type, that type's tags stay allowed beside "O".

        Args:
            emissions_BLK: Scores in any floating type.
            allowed_BLK: Whether each tag is possible at each token, as booleans.
            lengths_B: The number of tokens of each sentence, at most L.

        Raises:
            FednerError: If no path of a sentence lies within `allowed`.
        """
        gradients = self.partial_sentence_gradients(emissions_BLK, allowed_BLK, lengths_B)
        return self._attach(emissions_BLK, gradients)

    @torch.no_grad()
    def partial_sentence_gradients(
        self, emissions_BLK: Tensor, allowed_BLK: Tensor, lengths_B: Tensor
    ) -> SentenceGradients:
        """Return the partial log-likelihood, detached, with each sentence's own gradients."""
        if allowed_BLK.dtype != torch.bool or allowed_BLK.shape != emissions_BLK.shape:
            raise FednerError(
                f"CRF: found allowed tags of type {allowed_BLK.dtype} and shape "
                f"{tuple(allowed_BLK.shape)}; expected torch.bool and the shape of the emissions, "
                f"{tuple(emissions_BLK.shape)}"
            )
        chain = self._chain(emissions_BLK, lengths_B)
        within_BLK = chain.emissions_BLK.masked_fill(
            ~allowed_BLK.to(chain.emissions_BLK.device), -torch.inf
        )
        # One batch for both sums: the cost is in the tokens that follow each other, not the rows.
        both = crf_kernels.posterior(
            chain._replace(
                emissions_BLK=torch.cat((within_BLK, chain.emissions_BLK)),
                lengths_B=chain.lengths_B.repeat(2),
            )
        )
        _require_paths(both.log_partition_B, chain.lengths_B, "within the allowed tags")
        value_B, marginals_BLK, steps_BKK = (
            torch.sub(*part.chunk(2)) if len(part) else part for part in both
        )
        parameters = _parameter_counts(marginals_BLK, steps_BKK, chain.lengths_B)
        return SentenceGradients(value_B, _working(chain, marginals_BLK), parameters)

    def log_partition(self, emissions_BLK: Tensor, lengths_B: Tensor) -> Tensor:
        """Return (B,) the log of the sum over all paths; differentiable once."""
        with torch.no_grad():
            chain, posterior = self._infer(emissions_BLK, lengths_B)
            value_B, marginals_BLK, steps_BKK = posterior
            parameters = _parameter_counts(marginals_BLK, steps_BKK, chain.lengths_B)
            gradients = SentenceGradients(value_B, _working(chain, marginals_BLK), parameters)
        return self._attach(emissions_BLK, gradients)

    @torch.no_grad()
    def marginals(self, emissions_BLK: Tensor, lengths_B: Tensor) -> Tensor:
        """Return (B, L, K) the probability of each tag at each token; 0 behind a sentence's end."""
        chain, posterior = self._infer(emissions_BLK, lengths_B)
        return _working(chain, posterior.marginals_BLK)

    @torch.no_grad()
    def pairwise_expectations(self, emissions_BLK: Tensor, lengths_B: Tensor) -> ParameterCounts:
        """Return how often each sentence is expected to use each parameter, in float64."""
        chain, posterior = self._infer(emissions_BLK, lengths_B)
        return _parameter_counts(posterior.marginals_BLK, posterior.steps_BKK, chain.lengths_B)

    @torch.no_grad()
    def viterbi(self, emissions_BLK: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return (B, L) the best tags and (B,) the score of that path, before normalisation.

        Among equal scores the lower tag wins, looking from the end. Tags behind a sentence's end
        are 0, the score of an empty sentence is 0.
        """
        chain = self._chain(emissions_BLK, lengths_B)
        tags_BL, score_B = crf_kernels.best_paths(chain)
        if self.is_constrained:
            _require_paths(score_B, chain.lengths_B, "that the tag scheme allows")
        return tags_BL, score_B.to(chain.emissions_BLK.dtype)

    def _chain(self, emissions_BLK: Tensor, lengths_B: Tensor) -> Chain:
        """Return the potentials of a batch, detached; half precision becomes single."""
        _check_shapes(emissions_BLK, lengths_B, self.num_tags)
        emissions_BLK = emissions_BLK.detach()
        if emissions_BLK.dtype not in (torch.float32, torch.float64):
            emissions_BLK = emissions_BLK.float()
        scores = [each.detach() for each in self.potentials()]
        if self.is_constrained:
            masks = (self.forbidden_start, self.forbidden_end, self.forbidden_transitions)
            scores = [s.masked_fill(m, -torch.inf) for s, m in zip(scores, masks, strict=True)]
        start_K, end_K, transitions_KK = scores
        lengths_B = lengths_B.to(emissions_BLK.device, torch.int64)
        return Chain(emissions_BLK, start_K, end_K, transitions_KK, lengths_B)

    def _infer(self, emissions_BLK: Tensor, lengths_B: Tensor) -> tuple[Chain, Posterior]:
        """Return the potentials and the posterior of a batch."""
        chain = self._chain(emissions_BLK, lengths_B)
        posterior = crf_kernels.posterior(chain)
        if self.is_constrained:
            _require_paths(posterior.log_partition_B, chain.lengths_B, "that the tag scheme allows")
        return chain, posterior

    def _attach(self, emissions_BLK: Tensor, gradients: SentenceGradients) -> Tensor:
        """Return the value of `gradients` as a function of emissions and parameters."""
        value_B: Tensor = _WithGradients.apply(  # type: ignore[no-untyped-call]
            emissions_BLK, *self.potentials(), gradients
        )
        return value_B


class _WithGradients(torch.autograd.Function):
    """Gives a value its known gradients, weighted by sentence."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        emissions_BLK: Tensor,
        start_K: Tensor,
        end_K: Tensor,  # noqa: ARG004  (autograd wants every differentiable input here)
        transitions_KK: Tensor,  # noqa: ARG004
        gradients: SentenceGradients,
    ) -> Tensor:
        """Return the value in the type of the emissions, or single where that is half."""
        ctx.save_for_backward(gradients.emissions_BLK, *gradients.parameters)
        ctx.dtypes = (emissions_BLK.dtype, start_K.dtype)  # type: ignore[attr-defined]
        return gradients.value_B.to(gradients.emissions_BLK.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weights_B: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients, each sentence's weighted by what arrives for it."""
        emissions_BLK, start_BK, end_BK, transitions_BKK = ctx.saved_tensors
        emissions_dtype, dtype = ctx.dtypes
        wide_B = weights_B.double()
        into_emissions = None
        if ctx.needs_input_grad[0]:
            into_emissions = (emissions_BLK * weights_B[:, None, None]).to(emissions_dtype)
        into_transitions = (wide_B @ transitions_BKK.flatten(1)).view(transitions_BKK.shape[1:])
        return (
            into_emissions,
            (wide_B @ start_BK).to(dtype),
            (wide_B @ end_BK).to(dtype),
            into_transitions.to(dtype),
            None,
        )


def _working(chain: Chain, values_BLK: Tensor) -> Tensor:
    """Return `values` contiguous and in the type that the batch is worked on in."""
    dtype = chain.emissions_BLK.dtype
    return values_BLK.to(dtype, memory_format=torch.contiguous_format).contiguous()


def _parameter_counts(
    marginals_BLK: Tensor, steps_BKK: Tensor, lengths_B: Tensor
) -> ParameterCounts:
    """Return the counts of start and end, which are those of the first and the last token."""
    num_sentences, num_tokens, num_tags = marginals_BLK.shape
    if num_tokens == 0:
        nothing_BK = steps_BKK.new_zeros(num_sentences, num_tags)
        return ParameterCounts(nothing_BK, nothing_BK.clone(), steps_BKK)
    last_B1K = (lengths_B - 1).clamp_min(0)[:, None, None].expand(-1, 1, num_tags)
    end_BK = marginals_BLK.gather(1, last_B1K).squeeze(1)
    return ParameterCounts(marginals_BLK[:, 0].double(), end_BK.double(), steps_BKK)


def _gold_path(chain: Chain, tags_BL: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gold tags, 0 behind a sentence's end, and (B, L) which tokens are within."""
    num_sentences, num_tokens, num_tags = chain.emissions_BLK.shape
    if tags_BL.shape != (num_sentences, num_tokens):
        raise FednerError(
            f"CRF: found gold tags of shape {tuple(tags_BL.shape)}; expected "
            f"({num_sentences}, {num_tokens}) as the emissions have"
        )
    mask_BL = token_mask(chain.lengths_B, num_tokens)
    tags_BL = tags_BL.to(chain.lengths_B).masked_fill(~mask_BL, 0)
    # On an accelerator the look would make the host wait; indexing reports it there.
    if tags_BL.device.type == "cpu" and tags_BL.numel():
        lowest, highest = (int(bound) for bound in tags_BL.aminmax())
        if lowest < 0 or highest >= num_tags:
            found = lowest if lowest < 0 else highest
            raise FednerError(
                f"CRF: found gold tag {found}; expected 0 to {num_tags - 1}",
                "Encode the annotation with the tag set that the model was made for.",
            )
    return tags_BL, mask_BL


def _forbidden(num_tags: int, transitions: Transitions | None) -> dict[str, Tensor]:
    """Return what must not begin, end and follow; nothing where there is no scheme."""
    if transitions is None:
        nothing_K = torch.zeros(num_tags, dtype=torch.bool)
        nothing_KK = torch.zeros(num_tags, num_tags, dtype=torch.bool)
        return {"start": nothing_K, "end": nothing_K.clone(), "transitions": nothing_KK}
    sizes = {len(transitions.start), len(transitions.end), len(transitions.step)}
    sizes |= {len(row) for row in transitions.step}
    if sizes != {num_tags}:
        raise FednerError(
            f"CRF: found allowed transitions for {sorted(sizes)} tags; expected {num_tags}",
            "Make them from the tags of the model with allowed_transitions().",
        )
    return {
        "start": ~torch.tensor(transitions.start),
        "end": ~torch.tensor(transitions.end),
        "transitions": ~torch.tensor(transitions.step),
    }


def _check_shapes(emissions_BLK: Tensor, lengths_B: Tensor, num_tags: int) -> None:
    """Raise unless the shapes fit each other, and the lengths the tokens."""
    if emissions_BLK.dim() != 3 or emissions_BLK.shape[2] != num_tags:
        raise FednerError(
            f"CRF: found emissions of shape {tuple(emissions_BLK.shape)}; expected (sentences, "
            f"tokens, {num_tags})"
        )
    if lengths_B.shape != emissions_BLK.shape[:1]:
        raise FednerError(
            f"CRF: found lengths of shape {tuple(lengths_B.shape)}; expected "
            f"({len(emissions_BLK)},), one for each sentence"
        )
    if lengths_B.device.type == "cpu" and len(lengths_B):
        shortest, longest = (int(bound) for bound in lengths_B.aminmax())
        if shortest < 0 or longest > emissions_BLK.shape[1]:
            raise FednerError(
                f"CRF: found sentence lengths from {shortest} to {longest}; expected 0 to "
                f"{emissions_BLK.shape[1]}, the tokens of the emissions"
            )


def _require_paths(log_sums_B: Tensor, lengths_B: Tensor, what: str) -> None:
    """Raise if a sentence has no path at all."""
    lost_B = log_sums_B.isneginf()
    if bool(lost_B.any()):
        row = int(lost_B.int().argmax()) % len(lengths_B)
        raise FednerError(
            f"CRF: sentence {row} of the batch ({int(lengths_B[row])} tokens) has no path {what}",
            "Allow at least one tag sequence for it.",
        )


def _forbidden_path(chain: Chain, tags_BL: Tensor, gold_B: Tensor) -> FednerError:
    """Return the error that names the first forbidden step of a gold path."""
    row = int(gold_B.isneginf().int().argmax())
    tags = tags_BL[row, : int(chain.lengths_B[row])].tolist()
    transitions = chain.transitions_KK.tolist()
    where = f"ends with tag {tags[-1]}"
    if chain.start_K[tags[0]].isneginf():
        where = f"begins with tag {tags[0]}"
    for index in range(1, len(tags)):
        if transitions[tags[index - 1]][tags[index]] == -torch.inf:
            where = f"steps from tag {tags[index - 1]} to tag {tags[index]} at token {index}"
            break
    return FednerError(
        f"CRF: the gold path of sentence {row} of the batch {where}, which the tag scheme forbids",
        "Encode the annotation in the scheme of the model, or train without constraints.",
    )


def chain_scores(decoder: LinearChain) -> Mapping[str, Any]:
    """Return the scores of beginning, ending and stepping; None where the scheme forbids it."""
    scores: dict[str, Any] = {}
    for key, found in zip(("start", "end", "transitions"), decoder.potentials(), strict=True):
        values = found.detach().cpu().double().numpy()
        is_forbidden = decoder.get_buffer(f"forbidden_{key}").cpu().numpy()
        scores[key] = np.ma.masked_array(values, is_forbidden).tolist()  # masked becomes None
    return scores
