"""Find the mentions of a text with an exported tagger: python onnx_tagger.py EXPORT TEXT."""

import sys

from fedner.inference.onnx_tagger import OnnxTagger

tagger = OnnxTagger.load(sys.argv[1])
for mention in tagger.predict(sys.argv[2]):
    place = f"{mention.start}-{mention.end}"
    print(place, mention.label, mention.text, f"{mention.confidence:.2f}")
