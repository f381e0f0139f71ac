"""Ge et al. 2020, "FedNER: Privacy-preserving medical NER with federated learning": its results."""

from fedner.reproduce.fedner_2020.baselines import TABLE2
from fedner.reproduce.fedner_2020.corpora import TABLE1
from fedner.reproduce.fedner_2020.decomposition import FIGURE4
from fedner.reproduce.fedner_2020.generalization import FIGURE6
from fedner.reproduce.fedner_2020.overlapped_entities import FIGURE5
from fedner.reproduce.fedner_2020.training_size import FIGURE3

STUDIES = (TABLE1, TABLE2, FIGURE3, FIGURE4, FIGURE5, FIGURE6)

__all__ = ["STUDIES"]
