"""Jana and Biemann 2021 on tagging under DP in federations: six tables, and why it collapsed.

Paper: "An Investigation towards Differentially Private Sequence Tagging in a Federated Framework".
Everything here runs on one corpus, which is divided among n equal platforms.
"""

from fedner.reproduce.tagging_2021 import studies
from fedner.reproduce.tagging_2021.collapse import COLLAPSE

STUDIES = (*studies.STUDIES, COLLAPSE)

__all__ = ["STUDIES"]
