"""Studies beyond both papers: tag schemes, platforms, links, domains, removal, joining, DP."""

from fedner.reproduce.beyond.communication_tables import COMMUNICATION
from fedner.reproduce.beyond.deidentification import DEIDENTIFICATION
from fedner.reproduce.beyond.demo import DEMO
from fedner.reproduce.beyond.domains import DOMAINS
from fedner.reproduce.beyond.dp_cost import DP_COST
from fedner.reproduce.beyond.encoders import ENCODERS
from fedner.reproduce.beyond.joining import JOINING_STUDY
from fedner.reproduce.beyond.joining_settings import JOINING_SETTINGS
from fedner.reproduce.beyond.platforms import PLATFORMS
from fedner.reproduce.beyond.schemes import SCHEMES
from fedner.reproduce.beyond.suggesting import SUGGESTING

STUDIES = (
    SCHEMES,
    PLATFORMS,
    COMMUNICATION,
    DOMAINS,
    DEIDENTIFICATION,
    ENCODERS,
    JOINING_STUDY,
    JOINING_SETTINGS,
    SUGGESTING,
    DEMO,
    DP_COST,
)

__all__ = ["STUDIES"]
