"""Find the entities of a text in a spaCy pipeline: python spacy_pipeline.py MODEL TEXT."""

import sys

import spacy

nlp = spacy.blank("en")
nlp.add_pipe("fedner", config={"model": sys.argv[1], "spans_key": "fedner"})
doc = nlp(sys.argv[2])
for span in doc.ents:
    print(f"{span.start_char}-{span.end_char}", span.label_, span.text)
print("confidences:", doc.spans["fedner"].attrs["scores"])
