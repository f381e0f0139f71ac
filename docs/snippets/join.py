"""Join later: MODEL OWN_DATA OUT."""

import sys

import fedner

tagger = fedner.join(sys.argv[1], fedner.read(sys.argv[2]), sys.argv[3])
found = tagger.facts["joining"]
for method, each in found["results"].items():
    print(method, round(each["scores"]["strict"]["micro"]["f1"], 3))
print("kept:", found["kept"], "-", found["worth_words"])
