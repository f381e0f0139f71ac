"""Federated named-entity recognition: platforms train together, every text stays on its platform.

These names are for everybody; the modules behind them may change from one release to the next.
A name is imported when it is first used: `import fedner` is quick and needs no torch.

>>> import fedner
>>> corpus = fedner.synthetic_corpus("case-reports", 30, seed=1)
>>> corpus.labels
('ADE', 'Dosage', 'Drug')
"""

from importlib import import_module
from typing import TYPE_CHECKING

from fedner.version import __version__

if TYPE_CHECKING:
    from fedner import privacy
    from fedner.api.joining import join
    from fedner.api.simulation import Simulation, simulate
    from fedner.api.splitting import split
    from fedner.api.study import study_for
    from fedner.api.tagger import Tagger
    from fedner.corpus.document import Corpus, Document, Span
    from fedner.corpus.prepare import prepare
    from fedner.corpus.readers import Reader, register_reader
    from fedner.corpus.reading import read
    from fedner.corpus.sentence import Entity, Sentence
    from fedner.corpus.synthetic import generate as synthetic_corpus
    from fedner.engines.in_process import InProcess
    from fedner.engines.workers import Workers
    from fedner.errors import FednerError
    from fedner.federated.algorithms import Algorithm, Server
    from fedner.federated.algorithms.fedadam import fedadam
    from fedner.federated.algorithms.fedavg import fedavg
    from fedner.federated.algorithms.fedner import fedner
    from fedner.federated.algorithms.fedprox import fedprox
    from fedner.federated.algorithms.scaffold import scaffold
    from fedner.federated.contribution import Contribution
    from fedner.federated.engine import Engine
    from fedner.federated.summation import Summation
    from fedner.inference.reading import Mention
    from fedner.inference.redact import redact
    from fedner.models.layers import LayerForms, register_layer
    from fedner.privacy.mechanisms import Mechanism
    from fedner.runs.coordinator import coordinate
    from fedner.runs.site import Site, open_site
    from fedner.runs.site_answer import SiteAnswer
    from fedner.scoring import Scores
    from fedner.scoring import score_documents as score
    from fedner.settings import EngineSettings, PlatformSettings, Study

__all__ = [
    "Algorithm",
    "Contribution",
    "Corpus",
    "Document",
    "Engine",
    "EngineSettings",
    "Entity",
    "FednerError",
    "InProcess",
    "LayerForms",
    "Mechanism",
    "Mention",
    "PlatformSettings",
    "Reader",
    "Scores",
    "Sentence",
    "Server",
    "Simulation",
    "Site",
    "SiteAnswer",
    "Span",
    "Study",
    "Summation",
    "Tagger",
    "Workers",
    "__version__",
    "coordinate",
    "fedadam",
    "fedavg",
    "fedner",
    "fedprox",
    "join",
    "open_site",
    "prepare",
    "privacy",
    "read",
    "redact",
    "register_layer",
    "register_reader",
    "scaffold",
    "score",
    "simulate",
    "split",
    "study_for",
    "synthetic_corpus",
]

# Where each name comes from: the imports above, for use. "module:name" where it has another there.
_PLACES = {
    "Algorithm": "federated.algorithms",
    "Contribution": "federated.contribution",
    "Corpus": "corpus.document",
    "Document": "corpus.document",
    "Engine": "federated.engine",
    "EngineSettings": "settings",
    "Entity": "corpus.sentence",
    "FednerError": "errors",
    "InProcess": "engines.in_process",
    "LayerForms": "models.layers",
    "Mechanism": "privacy.mechanisms",
    "Mention": "inference.reading",
    "PlatformSettings": "settings",
    "Reader": "corpus.readers",
    "Scores": "scoring",
    "Sentence": "corpus.sentence",
    "Server": "federated.algorithms",
    "Simulation": "api.simulation",
    "Site": "runs.site",
    "SiteAnswer": "runs.site_answer",
    "Span": "corpus.document",
    "Study": "settings",
    "Summation": "federated.summation",
    "Tagger": "api.tagger",
    "Workers": "engines.workers",
    "coordinate": "runs.coordinator",
    "fedadam": "federated.algorithms.fedadam",
    "fedavg": "federated.algorithms.fedavg",
    "fedner": "federated.algorithms.fedner",
    "fedprox": "federated.algorithms.fedprox",
    "join": "api.joining",
    "open_site": "runs.site",
    "prepare": "corpus.prepare",
    "privacy": "",
    "read": "corpus.reading",
    "redact": "inference.redact",
    "register_layer": "models.layers",
    "register_reader": "corpus.readers",
    "scaffold": "federated.algorithms.scaffold",
    "score": "scoring:score_documents",
    "simulate": "api.simulation",
    "split": "api.splitting",
    "study_for": "api.study",
    "synthetic_corpus": "corpus.synthetic:generate",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'fedner' has no attribute {name!r}")
    module, _, inner = _PLACES[name].partition(":")
    if not module:
        return import_module(f"fedner.{name}")
    found = getattr(import_module(f"fedner.{module}"), inner or name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
