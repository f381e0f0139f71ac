"""F1 against epsilon, by who adds the noise and what training begins with, and its settings."""

from fedner.reproduce.privacy_utility.cells import first_cells, run
from fedner.reproduce.privacy_utility.earlier import earlier_cells
from fedner.reproduce.privacy_utility.settings_trial import DP_SETTINGS
from fedner.reproduce.privacy_utility.showing import SETTINGS, show
from fedner.reproduce.reproduction import Reproduction

PRIVACY_UTILITY = Reproduction(
    name="privacy-utility",
    source="beyond both papers",
    title="F1 against epsilon: noise of each platform, of all together, of the server; newcomers",
    layout="own",
    corpora=(),
    stages=(first_cells,),
    run=run,
    show=show,
    needs=frozenset({"words", "context"}),
    settings=SETTINGS,
    repeats=3,
)
STUDIES = (PRIVACY_UTILITY, DP_SETTINGS)

__all__ = ["STUDIES", "earlier_cells"]
