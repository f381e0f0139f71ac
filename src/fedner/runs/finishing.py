"""The last stretch: after the last round each platform goes on by itself, and nothing leaves.

Algorithm 1 ends at a constant rate, with private weights that saw few sentences a step and a
shared part that is everybody's compromise. A few epochs over a platform's own sentences, all
weights trained, at a rate that falls to zero, fit both to the platform's own annotation.
"""

from dataclasses import replace

from fedner.models.features import TagSpace, select
from fedner.models.tagger import Tagger
from fedner.runs.assembly import Federation, encoded, private_optimiser
from fedner.seeds import derive
from fedner.training import TrainingSettings, train

MOST_SENTENCES = 32


def finish(
    federation: Federation, name: str, tagger: Tagger, space: TagSpace | None = None
) -> None:
    """Train a platform's own copy of the whole tagger in place, at half the private rate, falling.

    Args:
        federation: The federation; its settings say for how many epochs.
        name: The platform.
        tagger: Its tagger after the last round, or that of a control, which gets the same stretch.
        space: Other tags than the platform's own, as where the federation shares its tags.
    """
    settings = federation.settings
    corpus = select(encoded(federation, name, space), federation.data[name].train)
    batch = min(MOST_SENTENCES, settings.training.batch)
    epochs = settings.training.finish_epochs
    optimiser = private_optimiser(settings)
    falling = replace(
        optimiser,
        rate=optimiser.rate / 2,
        schedule="linear",
        decay_steps=epochs * -(-int((corpus.lengths > 0).sum()) // batch),
    )
    plan = TrainingSettings(
        epochs=epochs, batch=batch, optimiser=falling, clip=settings.private.clip or None
    )
    train(tagger, corpus, plan, derive(settings.seed, "finish", "platform", name))
