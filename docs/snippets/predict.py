"""Load a saved tagger and find mentions: python predict.py MODEL "a text"."""

import sys

from fedner.inference.predict import Predictor

predictor = Predictor.load(sys.argv[1])
for mention in predictor.predict(sys.argv[2]):
    place = f"{mention.start}-{mention.end}"
    print(place, mention.label, mention.text, f"{mention.confidence:.2f}")
