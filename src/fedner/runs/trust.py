"""Whom a run's platforms must trust: said only where it is true."""

from fedner.privacy.mechanisms import MechanismFacts
from fedner.runs.sums import sum_terms
from fedner.settings import Study

WITHOUT_NOISE = (
    "The server must be trusted: updates were clipped, but no noise was added, and epsilon is "
    "infinite."
)
SIMULATED = (
    "The server must be trusted, and so must everybody who knows the seed: the noise can be "
    "computed and removed."
)
NOTHING = (
    "The server must be trusted, and so must everybody who sees updates or finished taggers: "
    "what they reveal about single texts is not bounded."
)
SUMMED = (
    "The server must be trusted with sums: it opened those of at least {least} platforms and no "
    "single update, as long as at most {colluding} of them work together with it (in a simulation "
    "on one machine its owner sees all). What sums and finished taggers tell about single texts is "
    "not bounded."
)


ENCRYPTED = (
    "The other platforms must be trusted: they have the key, and read sums and the model, whose "
    "telling about single texts is not bounded. Updates, sums and weights were encrypted, and the "
    "server has no key: of them it learns nothing as long as no platform works together with it "
    "(in a simulation on one machine its owner sees all)."
)


def trust_note(settings: Study, mechanism: MechanismFacts | None) -> str:
    """Return whom the platforms of a run must trust.

    Args:
        settings: The study.
        mechanism: What protects the platforms' units; None without differential privacy.

    Guarantee:
        The sentence that the server need not be trusted stands only where every platform adds
        noise of its own that no seed can repeat.
    """
    held = settings.privacy
    if mechanism is None and settings.transport.encryption is not None:
        return ENCRYPTED
    if mechanism is None and settings.transport.secure_sum:
        terms = sum_terms(settings)
        return SUMMED.format(least=terms.least_survivors, colluding=terms.colluding)
    if mechanism is None:
        return NOTHING
    if held.simulation:
        return SIMULATED
    if held.noise_multiplier == 0:
        return WITHOUT_NOISE
    return mechanism.trust
