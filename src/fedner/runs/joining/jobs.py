"""One training at home: an arm with one setting on some sentences, and what it says of others.

What is kept of it are the emissions of the sentences that it did not see, and its chain of scores.
Predictions follow from them, those of an average of several trainings included.

Shapes: B sentences, L tokens, T tokens of all held-out sentences, K tags.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.corpus.schemes import decode
from fedner.corpus.sentence import Entity
from fedner.federated.answering import one_thread
from fedner.models import crf_kernels
from fedner.models.averaged import AnyTagger, chain_of, mean_chain
from fedner.models.crf_chain import Chain
from fedner.models.features import EncodedCorpus, TagSpace, collate, select
from fedner.models.layers.softmax import SoftmaxDecoder
from fedner.models.tagger import Tagger
from fedner.runs.joining.candidates import Arm, Setting, training_of
from fedner.runs.joining.newcomer import Newcomer
from fedner.seeds import derive
from fedner.training import DivergedError, evaluation_batches, snapshot, train


@dataclass(frozen=True, slots=True)
class Job:
    """A training, and the sentences that it is asked about afterwards.

    Attributes:
        arm: What is trained.
        setting: How.
        part: What the sentences are, in a word: "fold-1", "test-0.5".
        train: The positions of the sentences that it trains on.
        held: The positions of those that it is asked about; none of them is trained on.
        keeps_weights: Whether the trained weights are kept.
    """

    arm: Arm
    setting: Setting
    part: str
    train: tuple[int, ...]
    held: tuple[int, ...]
    keeps_weights: bool = False

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"{self.part}-{self.arm}-{self.setting.label}"

    def digest(self, of_data: str) -> str:
        """Return a hash of all that its result depends on.

        Args:
            of_data: A hash of the newcomer's data and of what it received.
        """
        stated = json.dumps([of_data, asdict(self)], sort_keys=True)
        return hashlib.sha256(stated.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Found:
    """What a trained candidate says of the held-out sentences.

    Attributes:
        emissions_TK: The scores of every tag, sentence after sentence, on the CPU.
        chain: Its scores of beginning, ending and stepping.
        weights: What was trained; empty where it was not kept.
    """

    emissions_TK: Tensor
    chain: Chain
    weights: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def has_diverged(self) -> bool:
        """Whether the training came to nothing: no score differs from zero."""
        return not bool(self.emissions_TK.any())


def run_job(newcomer: Newcomer, job: Job) -> Found:
    """Train a candidate and ask it about the held-out sentences.

    A candidate whose training diverges finds nothing; one whose weights are kept must not diverge.

    Raises:
        FednerError: The training of what shall be kept diverged.
    """
    try:
        tagger = trained(newcomer, job)
    except DivergedError:
        if job.keeps_weights:
            raise
        return _nothing_found(newcomer, job)
    with one_thread():
        emissions_TK = emissions_of(tagger, select(newcomer.corpus, job.held))
    kept = {name: each for name, each in tagger.named_parameters() if each.requires_grad}
    weights = snapshot(kept) if job.keeps_weights else {}
    return Found(emissions_TK, chain_of(tagger.decoder), weights)


def _nothing_found(newcomer: Newcomer, job: Job) -> Found:
    """Return the result of a candidate that tags every token "O"."""
    num_tokens = sum(len(newcomer.data.sentences[at].tokens) for at in job.held)
    num_tags = len(newcomer.space.tags)
    return Found(torch.zeros(num_tokens, num_tags), chain_of(SoftmaxDecoder(num_tags)))


def trained(newcomer: Newcomer, job: Job) -> Tagger:
    """Return a tagger of the job's arm, trained on the job's sentences."""
    tagger = newcomer.tagger(job.arm)
    corpus = select(newcomer.corpus, job.train)
    num_sentences = int((corpus.lengths > 0).sum())
    plan = training_of(job.setting, newcomer.recipe(job.arm), num_sentences)
    seed = derive(newcomer.seed, "join", job.arm, job.part)
    with one_thread():
        train(tagger, corpus, plan, seed)
    return tagger


@torch.no_grad()
def emissions_of(tagger: AnyTagger, corpus: EncodedCorpus) -> Tensor:
    """Return the emissions of every token, in the order of the corpus (T, K)."""
    tagger.eval()
    found = [torch.zeros(0, tagger.decoder.num_tags)] * len(corpus)
    for chosen in evaluation_batches(corpus.lengths):
        batch = collate(corpus, chosen)
        emissions_BLK = tagger(batch).float().cpu()
        for row, sentence in enumerate(batch.sentences):
            found[sentence] = emissions_BLK[row, : corpus.lengths[sentence]]
    return torch.cat([torch.zeros(0, tagger.decoder.num_tags), *found])


def predictions(
    found: Sequence[Found], lengths: Sequence[int], space: TagSpace
) -> list[list[Entity]]:
    """Return the mentions of each held-out sentence under the mean of several candidates.

    Args:
        found: What each candidate says of the same sentences; a single one is itself.
        lengths: The tokens of each sentence.
        space: The tags of all candidates.
    """
    emissions_TK = torch.stack([each.emissions_TK for each in found]).mean(0)
    chain = mean_chain([each.chain for each in found])
    names = np.asarray(space.tags, dtype=object)
    return [
        decode(names[tags].tolist(), space.scheme)
        for tags in _best_tags(emissions_TK, chain, lengths)
    ]


def _best_tags(
    emissions_TK: Tensor, chain: Chain, lengths: Sequence[int]
) -> list[NDArray[np.int64]]:
    """Return the best tags of each sentence."""
    rows = torch.split(emissions_TK, list(lengths))
    result: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * len(rows)
    for chosen in evaluation_batches(np.asarray(lengths, np.int64)):
        padded_BLK = torch.nn.utils.rnn.pad_sequence([rows[at] for at in chosen], batch_first=True)
        batch = chain._replace(
            emissions_BLK=padded_BLK.double(),
            lengths_B=torch.tensor([lengths[at] for at in chosen]),
        )
        tags_BL, _ = crf_kernels.best_paths(batch)
        for row, at in enumerate(chosen):
            result[at] = tags_BL[row, : lengths[at]].numpy()
    return result
