"""`fedner join`: receive, cross-validate, keep the best, test it, and write it down.

Nothing is sent, and nothing is written where the model was received from. What is finished is kept
in the folder of the new tagger as soon as it is known, so that a joining that was stopped goes on.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedner.corpus.document import Corpus
from fedner.durable import owner_folder, write_text
from fedner.errors import FednerError
from fedner.federated.folder_lock import held_by_this_process
from fedner.models.averaged import AnyTagger, AveragedTagger, chain_of
from fedner.models.checkpoint import LoadedTagger, save_tagger
from fedner.models.features import select
from fedner.runs.annotated_types import left_out_words
from fedner.runs.folder import MODEL_CARD
from fedner.runs.joining.candidates import JOINED, Grid, grid
from fedner.runs.joining.card import joined_card
from fedner.runs.joining.choice import METHODS, Choice, Method, choose
from fedner.runs.joining.cross_validation import OnJob, fold_jobs, run_jobs
from fedner.runs.joining.curve import Worth, curve_jobs, worth_of
from fedner.runs.joining.jobs import Found, Job, emissions_of, predictions
from fedner.runs.joining.newcomer import Newcomer, described, newcomer, read_data
from fedner.runs.joining.received import Received, open_received
from fedner.runs.joining.record import RECEIVED, RECORD, Joined, MethodResult
from fedner.runs.joining.store import UNFINISHED, Store, clear, require_place
from fedner.runs.outcome import Outcome, intervals_of, outcome_of
from fedner.runs.verdict import NO_PRIVACY, privacy_sentence, zero_sentence
from fedner.scoring import PairedTest, paired_test
from fedner.settings import PlatformEntry
from fedner.training import load


def _nothing(*_: object) -> None:
    return None


@dataclass(frozen=True, slots=True)
class JoinOptions:
    """How a newcomer joins.

    Attributes:
        types: Descriptions of its own types by name; for the others those of the shared model, or
            the name itself.
        has_test: Whether a part of its sentences is kept for the test; without one everything
            trains and no result is claimed.
        own: How many of its training sentences are used; None takes all.
        seed: Names every random choice.
        epochs: The number of epochs; None goes by the number of sentences.
        workers: How many trainings run side by side, each in a process of its own.
        device: "cpu", "cuda" or "auto".
        vectors: The model's word vectors, where they moved.
        context: The model's context encoder, where it moved.
        grid: The settings that are tried; None takes those of `candidates.py`.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    has_test: bool = True
    own: int | None = None
    seed: int = 1
    epochs: int | None = None
    workers: int = 1
    device: str = "cpu"
    vectors: Path | None = None
    context: Path | None = None
    grid: Grid | None = None


@dataclass(frozen=True, slots=True)
class JoinProgress:
    """Who hears how far a joining is; by default nobody.

    Attributes:
        say: A line on what is being done.
        job: A training is done: how many are, of how many, and which.
    """

    say: Callable[[str], None] = _nothing
    job: OnJob = _nothing


def join(
    model: Path,
    platform: PlatformEntry,
    out: Path,
    options: JoinOptions | None = None,
    *,
    corpus: Corpus | None = None,
    test_corpus: Corpus | None = None,
    progress: JoinProgress | None = None,
) -> tuple[Joined, LoadedTagger]:
    """Let a platform join: it receives a shared model, sends nothing, and keeps what serves it.

    Args:
        model: The folder of a released model or of a finished run; it is never written.
        platform: The newcomer's data and how they are read and split.
        out: The folder for its tagger; that of a joining that was stopped goes on.
        options: How it joins.
        corpus: Its texts where they are in memory.
        test_corpus: A test part of its own where it is in memory.
        progress: Who hears how far it is.

    Returns:
        What it came to, and the tagger that is kept.

    Raises:
        FednerError: The model, the data or the folder do not fit.
    """
    asked, tell = options or JoinOptions(), progress or JoinProgress()
    _require(asked)
    require_place(out, model)
    tell.say("opening what was received")
    received = open_received(
        model, vectors=asked.vectors, context=asked.context, device=asked.device
    )
    if received.device != "cpu" and asked.workers > 1:
        raise FednerError(
            f"--workers {asked.workers} on {received.device}: trainings cannot share a GPU",
            "Leave --workers out, or train on the CPU.",
        )
    tell.say("reading the data")
    data = read_data(
        platform,
        asked.seed,
        has_test=asked.has_test,
        own=asked.own,
        corpus=corpus,
        test_corpus=test_corpus,
    )
    types = described(data.labels, asked.types, received.descriptions)
    state = owner_folder(out / UNFINISHED)
    with held_by_this_process(state):
        tell.say("encoding the sentences")
        own = newcomer(
            received, data, platform.split.by, types, asked.seed, owner_folder(state / "context")
        )
        joined, kept = _joined(own, types, asked, Store(state, own.digest), tell)
        _keep(out, joined, kept)
    clear(out)
    return joined, kept


def _require(asked: JoinOptions) -> None:
    for name, value in (("--epochs", asked.epochs), ("--workers", asked.workers)):
        if value is not None and value < 1:
            raise FednerError(f"{name} {value}; expected at least 1", "Leave it out.")


def _joined(
    own: Newcomer, types: Mapping[str, str], asked: JoinOptions, store: Store, tell: JoinProgress
) -> tuple[Joined, LoadedTagger]:
    """Choose by cross-validation, train what was chosen on everything, and test it."""
    received = own.received
    tried = asked.grid or grid(
        len(own.data.train), has_head=received.has_described_head, epochs=asked.epochs
    )
    choice = _chosen(own, tried, asked.workers, store, tell)
    final = _final_jobs(own, choice)
    tell.say(f"kept: {choice.kept}; training on all {len(own.data.train):,} training sentences")
    run_jobs(own, [job for jobs in final.values() for job in jobs], store, asked.workers, tell.job)
    results = _results(own, final, store) if own.data.test else {}
    joined = Joined(
        name=own.data.name,
        received=summary(received),
        types=types,
        num_train=len(own.data.train),
        num_test=len(own.data.test),
        unit=own.unit,
        choice=choice,
        results=results,
        gain=_gain(results, choice.kept, own.seed),
        worth=_worth(own, final, store) if own.data.test else (),
        left_out=left_out_words(own.data.types.rows(own.data.labels)),
        zeros=_zeros(own.data.name, results, choice.kept),
        warnings=(*own.data.warnings, *_undescribed(types)),
        is_synthetic=own.data.is_synthetic,
    )
    return joined, _tagger(own, joined, final, store)


def _undescribed(types: Mapping[str, str]) -> tuple[str, ...]:
    """Return what the owner should hear of types that nobody described."""
    bare = [name for name, text in types.items() if text == name]
    if not bare:
        return ()
    return (f'{", ".join(bare)}: described by name alone; --types "{bare[0]}=..." says more',)


def _chosen(own: Newcomer, tried: Grid, workers: int, store: Store, tell: JoinProgress) -> Choice:
    jobs = fold_jobs(own, tried)
    tell.say(f"cross-validation: {len(jobs):,} trainings on three folds by {own.unit}")
    run_jobs(own, jobs, store, workers, tell.job)
    return choose(own, tried, jobs, store)


def _final_jobs(own: Newcomer, choice: Choice) -> dict[Method, list[Job]]:
    """Return the trainings of both chosen candidates: their learning curves, or what is kept."""
    joined = curve_jobs(own, choice.joined.arm, choice.joined.setting)
    local = curve_jobs(own, choice.local.arm, choice.local.setting)
    if own.data.test:
        return {"joined": joined, "local-only": local}
    arms = {each.arm for each in choice.members}
    needed: dict[Method, list[Job]] = {"joined": joined[-1:], "local-only": local[-1:]}
    return {name: jobs for name, jobs in needed.items() if jobs[0].arm in arms}


def _results(
    own: Newcomer, final: Mapping[Method, Sequence[Job]], store: Store
) -> dict[str, MethodResult]:
    """Return what every method came to on the test part."""
    joined, local = (store.read(final[method][-1]) for method in ("joined", "local-only"))
    found: dict[Method, list[Found]] = {
        "joined": [joined],
        "local-only": [local],
        "average": [joined, local],
    }
    results: dict[str, MethodResult] = {method: _result(own, found[method]) for method in METHODS}
    if not own.received.has_described_head:
        return results
    untrained = own.tagger(JOINED)
    emissions_TK = emissions_of(untrained, select(own.corpus, own.data.test))
    received = Found(emissions_TK, chain_of(untrained.decoder))
    return {RECEIVED: _result(own, [received]), **results}


def _result(own: Newcomer, found: Sequence[Found]) -> MethodResult:
    lengths = [len(each.tokens) for each in own.data.test_sentences]
    outcome = outcome_of(own.data, predictions(found, lengths, own.space), own.unit)
    return MethodResult(outcome, intervals_of(outcome, own.seed))


def _gain(results: Mapping[str, MethodResult], kept: Method, seed: int) -> PairedTest | None:
    if kept == "local-only" or kept not in results:
        return None
    one, other = (results[each].outcome.strict for each in ("local-only", kept))
    return paired_test(one, other, seed=seed)


def _worth(own: Newcomer, final: Mapping[Method, Sequence[Job]], store: Store) -> tuple[Worth, ...]:
    """Return what joining is worth in own sentences, at every size of the learning curves."""

    def outcomes(method: Method) -> list[Outcome]:
        return [_result(own, [store.read(job)]).outcome for job in final[method]]

    sizes = [len(job.train) for job in final["joined"]]
    local, joined = outcomes("local-only"), outcomes("joined")
    counts = [each.strict for each in local], [each.strict for each in joined]
    return worth_of(sizes, *counts, own.seed)


def _zeros(name: str, results: Mapping[str, MethodResult], kept: Method) -> str:
    if kept not in results:
        return ""
    return zero_sentence({name: {kept: results[kept].outcome.scores}})


def _tagger(
    own: Newcomer, joined: Joined, final: Mapping[Method, Sequence[Job]], store: Store
) -> LoadedTagger:
    """Return the kept tagger, as its parts were trained on all training sentences."""
    jobs = {job.arm: job for jobs in final.values() for job in jobs[-1:]}
    members = []
    for candidate in joined.choice.members:
        tagger = own.tagger(candidate.arm)
        load(tagger, store.read(jobs[candidate.arm]).weights)
        members.append(tagger.eval())
    whole: AnyTagger = members[0]
    recipes = tuple(own.recipe(each.arm) for each in joined.choice.members)
    if len(members) > 1:
        whole = AveragedTagger(members, recipes, own.space).to(own.received.device).eval()
    return LoadedTagger(
        whole,
        recipes[0],
        own.space,
        own.received.encoder,
        {"joining": joined.as_dict()},
        "",
        own.received.paths,
    )


def _keep(out: Path, joined: Joined, kept: LoadedTagger) -> None:
    """Write the tagger, its card and the record; what was trained on texts may tell of them."""
    write_text(out / RECORD, json.dumps(joined.as_dict(), indent=2, ensure_ascii=False) + "\n")
    write_text(out / MODEL_CARD, joined_card(joined, kept))
    save_tagger(
        out,
        kept.tagger,
        kept.recipe,
        kept.space,
        context=kept.context,
        paths=kept.paths,
        facts=kept.facts,
    )


def summary(received: Received) -> dict[str, Any]:
    """Return what was received, for records and cards."""
    return {
        "title": received.title,
        "digest": received.digest,
        "recipe": received.recipe.name,
        "head": received.recipe.head,
        "numbers": sum(each.numel() for each in received.weights.values()),
        "privacy": privacy_words(received),
    }


def privacy_words(received: Received) -> str:
    """Return in one sentence what differential privacy the shared model was trained with."""
    if received.privacy is not None:
        return privacy_sentence(received.privacy)
    noted = received.facts.get("privacy")
    if not isinstance(noted, Mapping):
        return NO_PRIVACY
    spent = noted["epsilon"]
    epsilon = "infinite" if spent is None else f"{spent:.2f}"
    kind = "Simulated differential privacy" if noted["simulation"] else "Differential privacy"
    return (
        f"{kind}: at most epsilon {epsilon} at delta {noted['delta']:g} for one {noted['unit']}, "
        f"by {noted['mechanism']}. {noted['trust']}"
    )
