"""What does differential privacy cost? A federation file at several epsilons and without.

    python -m fedner.experiments.dp FEDERATION.toml --epsilons 1,3,8 --noise-seeds 5

Every epsilon is run with several seeds of noise on one split. The score without privacy is that of
the same model trained as one would train it without: `--plain` says how. `--variant NAME KEY=VALUE
...` runs something else beside each epsilon, such as another decoder, and `--shares` other amounts
of training data.
"""

import argparse
import sys
from collections.abc import Sequence
from statistics import fmean

from fedner.experiments.jobs import kept_share
from fedner.experiments.variants import (
    Outcome,
    Variant,
    by_variant,
    mean_and_deviation,
    noise_seeds_of,
    run_variants,
    study_options,
)

PLAIN = "no DP"
# Without noise small batches at a small rate are better, and dropout helps.
PLAIN_SETTINGS = (
    "privacy.mechanism=none",
    "training.batch_size=64",
    "training.epochs=15",
    "model.dropout=0.2",
    "algorithm.server_optimizer.learning_rate=0.001",
    "local_optimizer.learning_rate=0.001",
)


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a Markdown table: every variant, its epsilon, its score as a share of no DP."""
    groups = by_variant(outcomes)
    platforms = sorted(outcomes[0].platforms)
    plain = fmean(each.micro for each in groups[PLAIN]) if PLAIN in groups else None
    head = ["run", "epsilon (PLD)", *platforms, "all", "share of no DP", "runs"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, group in groups.items():
        micro = [each.micro for each in group]
        spent = group[0].epsilon
        cells = [
            name,
            "" if spent is None else f"{spent:.2f}",
            *(f"{fmean(each.platforms[one] for each in group):.3f}" for one in platforms),
            mean_and_deviation(micro),
            "" if not plain else f"{fmean(micro) / plain:.1%}",
            str(len(group)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def variants_of(options: argparse.Namespace) -> list[Variant]:
    """Return what is run: epsilons, variants beside them, shares of the data, and the plain one."""
    given = tuple(options.set)
    found = []
    if not options.no_plain:
        found.append(Variant(PLAIN, (*given, *PLAIN_SETTINGS, *options.plain)))
    sides = [Variant("", ()), *(Variant(each[0], tuple(each[1:])) for each in options.variant)]
    for epsilon in filter(None, options.epsilons.split(",")):
        for side in sides:
            for share in options.shares.split(","):
                kept = kept_share(options.federation, given, float(share))
                name = f"epsilon {epsilon}" + (f" {side.name}" if side.name else "")
                name += "" if float(share) == 1 else f" {float(share):.0%} of the data"
                wanted = (f"privacy.epsilon={float(epsilon)}", *side.assignments)
                found.append(Variant(name, (*given, *wanted, *kept)))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study and print its table."""
    parser = argparse.ArgumentParser(description="What does differential privacy cost?")
    study_options(parser, "runs/private")
    parser.add_argument("--epsilons", default="1,3,8")
    parser.add_argument("--shares", default="1.0")
    parser.add_argument("--plain", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--no-plain", action="store_true")
    parser.add_argument(
        "--variant", nargs="+", action="append", default=[], metavar=("NAME", "KEY=VALUE")
    )
    options = parser.parse_args(arguments)
    variants = variants_of(options)
    outcomes = run_variants(
        options.federation, variants, noise_seeds_of(options), options.out, options.jobs
    )
    print(table(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
