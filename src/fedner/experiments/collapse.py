"""Why did federated, incremental, private tagging collapse in 2021? One thing changed at a time.

    python -m fedner.experiments.collapse examples/tagging-2021.toml --noise-seeds 3

The file has the settings of Jana and Biemann 2021 for one platform that holds everything. Here its
corpus is also divided among n equal platforms and fed in slices, and each suspect is changed by
itself: reading of the loss, clip, learning rate, noise, batch, micro-batches, decoder, n, slices.
The table has entity-level strict F1 and, beside it, the paper's likely measure (token-level,
weighted, "O" included) with what a tagger has on it that never finds anything.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from fedner.experiments.microbatches import assignments, write_microbatches
from fedner.experiments.variants import (
    Outcome,
    Variant,
    by_variant,
    mean_and_deviation,
    noise_seeds_of,
    run_variants,
    study_options,
)
from fedner.runs.checks import read_settings

LEARNING_RATE = 0.15
CLEAR = ("privacy.mechanism=none",)
CRF = ("model.recipe=BI-LSTM-CRF",)
# Large batches, linear decay, an optimizer that scales itself, one noise for all.
FIX = (
    "algorithm={name='fedner',server_optimizer={name='adam',learning_rate=0.01,schedule='linear'}}",
    "privacy.mechanism=unit-central",
    "privacy.max_grad_norm=1.0",
)


def learning_rate(value: float) -> str:
    """Return the assignment of another learning rate."""
    return f"algorithm.local.optimizer.learning_rate={value}"


def epochs(value: int) -> str:
    """Return the assignment of the local passes of a round."""
    return f"algorithm.local.epochs={value}"


def one_platform() -> Iterator[Variant]:
    """Yield the suspects that need no federation."""
    yield Variant("no DP", CLEAR)
    yield Variant("as in 2021")
    yield Variant("loss per token", ("privacy.loss=mean",))
    yield Variant("max_grad_norm 0.15", ("privacy.max_grad_norm=0.15",))
    yield Variant(
        "max_grad_norm 0.15, learning rate 1.5", ("privacy.max_grad_norm=0.15", learning_rate(1.5))
    )
    yield Variant("max_grad_norm 15", ("privacy.max_grad_norm=15.0",))
    yield Variant("learning rate 0.05", (learning_rate(0.05),))
    yield Variant("learning rate 0.5", (learning_rate(0.5),))
    yield Variant("noise_multiplier 5", ("privacy.noise_multiplier=5.0",))
    yield Variant(
        "noise_multiplier 5, learning rate 0.03",
        ("privacy.noise_multiplier=5.0", learning_rate(0.03)),
    )
    yield Variant("batch 256", ("training.batch_size=256",))
    yield Variant("batch 256, learning rate 1.2", ("training.batch_size=256", learning_rate(1.2)))
    yield Variant("CRF, no DP", (*CRF, *CLEAR))
    yield Variant("CRF", CRF)
    yield Variant("CRF, loss per token", (*CRF, "privacy.loss=mean"))
    yield Variant("CRF, noise_multiplier 5", (*CRF, "privacy.noise_multiplier=5.0"))


def micro_batches(federation: Path, given: Sequence[str], out: Path) -> Iterator[Variant]:
    """Yield the averaging of micro-batches before they are clipped; one sentence each is none."""
    held = read_settings(federation, tuple(given))
    for size in (1, 8, 32):
        copy = out / f"by-{size}.jsonl.xz"
        if not copy.is_file():
            out.mkdir(parents=True, exist_ok=True)
            write_microbatches(Path(held.platforms[0].data), copy, size)
        clipped = assignments(
            size, held.privacy.max_grad_norm, held.training.batch_size, LEARNING_RATE
        )
        whole = (f"platforms.0.data={copy.resolve()}", *clipped)
        yield Variant(f"micro-batches of {size}", whole)
        if size < held.training.batch_size:
            continue
        apart = _divided(federation, (*given, *whole), 5)
        # The assignments of a single platform are those of all five by now.
        kept = tuple(each for each in clipped if not each.startswith("platforms."))
        for share in (0.2, 0.6, 1.0):
            slices = ("training.slice=0.1", f"training.rounds={round(share * 10)}")
            for passes, label in ((1, "one pass"), (10, "10 passes")):
                name = f"n = 5, slices to {share:.0%}, {label}, micro-batches of {size}"
                yield Variant(name, (*kept, *apart, *slices, epochs(passes)))


def several_platforms(federation: Path, given: Sequence[str]) -> Iterator[Variant]:
    """Yield the suspects of federation: n, one round or slices, and the fix."""
    for number in (5, 20):
        apart = _divided(federation, given, number)
        yield Variant(f"n = {number}, no DP", (*apart, *CLEAR))
        yield Variant(f"n = {number}", apart)
    apart = _divided(federation, given, 5)
    for share in (0.2, 0.6, 1.0):
        slices = (*apart, "training.slice=0.1", f"training.rounds={round(share * 10)}")
        yield Variant(f"n = 5, slices to {share:.0%}, one pass", (*slices, epochs(1)))
        yield Variant(f"n = 5, slices to {share:.0%}, 10 passes", slices)
        yield Variant(f"n = 5, slices to {share:.0%}, 10 passes, CRF", (*slices, *CRF))
        noisy = (*slices, "privacy.noise_multiplier=5.0")
        yield Variant(f"n = 5, slices to {share:.0%}, 10 passes, noise_multiplier 5", noisy)
    long = "training={epochs=60,batch_size=1024,evaluate_every=0}"
    yield Variant("n = 5, fix, epsilon 3", (*apart, *FIX, *CRF, long, *_epsilon(3.0)))
    yield Variant("n = 5, fix, epsilon 1", (*apart, *FIX, *CRF, long, *_epsilon(1.0)))


def _epsilon(target: float) -> tuple[str, ...]:
    privacy = "mechanism='unit-central',unit='sentence',max_grad_norm=1.0,simulation=true"
    return (f"privacy={{{privacy},epsilon={target}}}",)


def _divided(federation: Path, given: Sequence[str], number: int) -> tuple[str, ...]:
    """Return the assignments that divide the file's one platform among `number` equal ones."""
    held = read_settings(federation, tuple(given)).platforms[0]
    labels = list(held.labels or ())
    platforms = (
        f"{{name='p{shard:02}',data='{held.data}',labels={labels},shard='{shard}/{number}',"
        f"split={{by='{held.split.by}',test={held.split.test}}}}}"
        for shard in range(1, number + 1)
    )
    return (f"platforms=[{','.join(platforms)}]",)


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a Markdown table: every variant with both measures and both accountants."""
    head = ["changed", "strict F1", "tokens, O included", "epsilon (PLD / RDP)", "runs"]
    lines = [
        f"Always O: {outcomes[0].always_o:.3f} by tokens, O included.",
        "",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
    ]
    for name, group in by_variant(outcomes).items():
        first = group[0]
        spent = ""
        if first.epsilon is not None and first.epsilon_rdp is not None:
            spent = f"{first.epsilon:.2f} / {first.epsilon_rdp:.2f}"
        scores = mean_and_deviation([each.micro for each in group])
        tokens = f"{fmean(each.tokens for each in group):.3f}"
        lines.append(f"| {name} | {scores} | {tokens} | {spent} | {len(group)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study and print its table."""
    parser = argparse.ArgumentParser(description="Why did federated tagging under DP collapse?")
    study_options(parser, "runs/collapse")
    parser.add_argument("--only", default="", help="variants whose names have this in them")
    options = parser.parse_args(arguments)
    given = tuple(options.set)
    variants = [
        Variant(each.name, (*given, *each.assignments))
        for each in (
            *one_platform(),
            *micro_batches(options.federation, given, options.out),
            *several_platforms(options.federation, given),
        )
        if options.only in each.name
    ]
    print(
        table(
            run_variants(
                options.federation, variants, noise_seeds_of(options), options.out, options.jobs
            )
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
