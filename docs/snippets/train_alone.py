"""Train a tagger on one corpus, score it, save it: python train_alone.py CORPUS FOLDER."""

import sys

import fedner

train, test = fedner.split(fedner.read(sys.argv[1]), test=0.2)
tagger = fedner.Tagger.train(train, epochs=15)
print("strict F1:", round(tagger.score(test).strict_micro.f1, 3))
tagger.save(sys.argv[2])
