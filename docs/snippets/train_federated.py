"""Train platforms together: python train_federated.py FOLDER CORPUS CORPUS ..."""

import sys
from pathlib import Path

import fedner

corpora = {Path(path).stem: fedner.read(path) for path in sys.argv[2:]}
study = fedner.study_for(corpora, training={"epochs": 15, "baselines": ["local-only"]})
for name, scores in fedner.simulate(study, corpora, sys.argv[1]).scores.items():
    print(name, {method: round(each.strict_micro.f1, 3) for method, each in scores.items()})
