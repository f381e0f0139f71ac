"""Local fine-tuning (personalization) after the last round: nothing is transmitted.

Algorithm 1 ends at a constant learning rate, with private weights that saw few sentences a step and
a shared part that is everybody's compromise. A few epochs over a platform's own sentences, all
weights trained, with linear decay of the learning rate to zero, fit both to the platform's own
annotation.
"""

from dataclasses import replace

from fedner.models.features import TagSpace, select
from fedner.models.tagger import Tagger
from fedner.runs.assembly import Federation, encoded, local_optimizer
from fedner.seeds import derive
from fedner.training import TrainingSettings, train

MOST_SENTENCES = 32


def finetune(
    federation: Federation, name: str, tagger: Tagger, space: TagSpace | None = None
) -> None:
    """Train a platform's whole tagger in place, at half the learning rate, with linear decay.

    Args:
        federation: The federation; its settings say for how many epochs.
        name: The platform.
        tagger: Its tagger after the last round, or that of a baseline, which gets the same.
        space: Other tags than the platform's own, as where the federation shares its tags.
    """
    settings = federation.settings
    corpus = select(encoded(federation, name, space), federation.data[name].train)
    batch_size = min(MOST_SENTENCES, settings.training.batch_size)
    epochs = settings.training.finetune_epochs
    optimizer = local_optimizer(settings)
    decaying = replace(
        optimizer,
        learning_rate=optimizer.learning_rate / 2,
        schedule="linear",
        decay_steps=epochs * -(-int((corpus.lengths > 0).sum()) // batch_size),
    )
    plan = TrainingSettings(
        epochs=epochs,
        batch_size=batch_size,
        optimizer=decaying,
        max_grad_norm=settings.local_optimizer.max_grad_norm or None,
    )
    train(tagger, corpus, plan, derive(settings.seed, "finish", "platform", name))
