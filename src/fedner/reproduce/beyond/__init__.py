"""Studies beyond both papers: other tag schemes, more platforms, slow links, domains, encoders."""

from fedner.reproduce.beyond.communication_tables import COMMUNICATION
from fedner.reproduce.beyond.domains import DOMAINS
from fedner.reproduce.beyond.encoders import ENCODERS
from fedner.reproduce.beyond.joining import JOINING_STUDY
from fedner.reproduce.beyond.platforms import PLATFORMS
from fedner.reproduce.beyond.schemes import SCHEMES

STUDIES = (SCHEMES, PLATFORMS, COMMUNICATION, DOMAINS, ENCODERS, JOINING_STUDY)

__all__ = ["STUDIES"]
