"""Load a saved tagger and find mentions: python predict.py MODEL "a text"."""

import sys

import fedner

tagger = fedner.Tagger.load(sys.argv[1])
for mention in tagger.predict(sys.argv[2]):
    place = f"{mention.start}-{mention.end}"
    print(place, mention.label, mention.text, f"{mention.confidence:.2f}")
