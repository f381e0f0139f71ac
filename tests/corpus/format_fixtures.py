"""One small input of every format, as its own tool writes it; each says where that is documented.

Each function writes its input below a folder and returns the path to read. Emoji stand before
mentions, so that a wrong way of counting shows.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

NEEDS_FORMATS = "needs the extra fedner[formats]"
NEEDS_SPACY = "needs the extra fedner[spacy]"

# Annotated texts of our own; no corpus is quoted.
TEXT = "Ow 😀 nausea after Aspirin. It went away."
NAUSEA, ASPIRIN = (5, 11), (18, 25)  # in characters; in UTF-16 units each is one more


def cadec(folder: Path) -> Path:
    """CADEC v2: text/NAME.txt and original/NAME.ann (Karimi et al. 2015)."""
    for name in ("text", "original"):
        (folder / "cadec" / name).mkdir(parents=True)
    (folder / "cadec/text/ASPIRIN.1.txt").write_text("Bit drowsy, pain in knees and hips.\n")
    (folder / "cadec/original/ASPIRIN.1.ann").write_text(
        "T1\tADR 4 10\tdrowsy\n#1\tAnnotatorNotes T1\tx\nT2\tADR 12 19;30 34\tpain in hips\n"
    )
    return folder / "cadec"


def ade(folder: Path) -> Path:
    """ADE Corpus V2: PMID|sentence|effect|begin|end|drug|begin|end (Gurulingappa et al. 2012)."""
    path = folder / "DRUG-AE.rel"
    path.write_text(
        "100|Intravenous azithromycin-induced ototoxicity.|ototoxicity|43|54|azithromycin|22|34\n"
        "101|Rash after aspirin.|Rash|0|4|aspirin|11|18\n"
    )
    return path


def smm4h(folder: Path) -> Path:
    """SMM4H ADR extraction: a row a mention, tab-separated (Weissenbacher et al. 2019)."""
    path = folder / "task3_training.tsv"
    path.write_text(
        "tweet_id\tbegin\tend\ttype\textraction\tdrug\ttweet\tmeddra_code\tmeddra_term\n"
        "1\t8\t14\tADR\tdizzy!\taspirin\taspirin dizzy! so\t10013573\tdizziness\n"
        "2\t\t\t\t\taspirin\tno aspirin today\t\t\n"
    )
    return path


def brat(folder: Path) -> Path:
    """Brat standoff: https://brat.nlplab.org/standoff.html; offsets count characters."""
    (folder / "notes").mkdir()
    (folder / "notes/one.txt").write_text(TEXT)
    (folder / "notes/one.ann").write_text(
        "T1\tADE 5 11\tnausea\nT2\tDrug 18 25\tAspirin\nR1\tCauses Arg1:T2 Arg2:T1\n"
    )
    (folder / "notes/annotation.conf").write_text("[entities]\nADE\nDrug\n[relations]\n")
    return folder / "notes"


TYPE_SYSTEM = """<?xml version="1.0" encoding="UTF-8"?>
<typeSystemDescription xmlns="http://uima.apache.org/resourceSpecifier"><types>
<typeDescription><name>de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity</name>
<supertypeName>uima.tcas.Annotation</supertypeName><features>
<featureDescription><name>value</name><rangeTypeName>uima.cas.String</rangeTypeName>
</featureDescription><featureDescription><name>identifier</name>
<rangeTypeName>uima.cas.String</rangeTypeName></featureDescription></features></typeDescription>
<typeDescription><name>de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Sentence</name>
<supertypeName>uima.tcas.Annotation</supertypeName></typeDescription>
<typeDescription><name>de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Token</name>
<supertypeName>uima.tcas.Annotation</supertypeName></typeDescription>
<typeDescription><name>webanno.custom.Effect</name>
<supertypeName>uima.tcas.Annotation</supertypeName><features>
<featureDescription><name>grade</name><rangeTypeName>uima.cas.String</rangeTypeName>
</featureDescription></features></typeDescription>
<typeDescription><name>webanno.custom.Causes</name>
<supertypeName>uima.tcas.Annotation</supertypeName><features>
<featureDescription><name>Governor</name><rangeTypeName>uima.tcas.Annotation</rangeTypeName>
</featureDescription><featureDescription><name>Dependent</name>
<rangeTypeName>uima.tcas.Annotation</rangeTypeName></featureDescription></features>
</typeDescription></types></typeSystemDescription>
"""

XMI = """<?xml version="1.1" encoding="UTF-8"?>
<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" xmlns:cas="http:///uima/cas.ecore"
 xmlns:custom="http:///webanno/custom.ecore"
 xmlns:ner="http:///de/tudarmstadt/ukp/dkpro/core/api/ner/type.ecore"
 xmlns:type="http:///de/tudarmstadt/ukp/dkpro/core/api/segmentation/type.ecore"
 xmi:version="2.0"><cas:NULL xmi:id="0"/>
<type:Sentence xmi:id="10" sofa="1" begin="0" end="27"/>
<type:Sentence xmi:id="11" sofa="1" begin="28" end="41"/>
<type:Token xmi:id="20" sofa="1" begin="0" end="2"/>
<type:Token xmi:id="21" sofa="1" begin="3" end="5"/>
<type:Token xmi:id="22" sofa="1" begin="6" end="12"/>
<type:Token xmi:id="23" sofa="1" begin="13" end="18"/>
<type:Token xmi:id="24" sofa="1" begin="19" end="26"/>
<type:Token xmi:id="25" sofa="1" begin="26" end="27"/>
<type:Token xmi:id="26" sofa="1" begin="28" end="30"/>
<type:Token xmi:id="27" sofa="1" begin="31" end="35"/>
<type:Token xmi:id="28" sofa="1" begin="36" end="41"/>
<ner:NamedEntity xmi:id="30" sofa="1" begin="19" end="26" value="Drug"/>
<custom:Effect xmi:id="31" sofa="1" begin="6" end="12" grade="mild"/>
<custom:Causes xmi:id="32" sofa="1" begin="6" end="12" Governor="30" Dependent="31"/>
<cas:Sofa xmi:id="1" sofaNum="1" sofaID="_InitialView" mimeType="text"
 sofaString="Ow &#128512; nausea after Aspirin. It went away."/>
<cas:View sofa="1" members="10 11 20 21 22 23 24 25 26 27 28 30 31 32"/></xmi:XMI>
"""


def xmi(folder: Path) -> Path:
    """UIMA CAS XMI 1.1 of INCEpTION: a zip with NAME.xmi and TypeSystem.xml, unpacked.

    https://inception-project.github.io/releases/33.0/docs/user-guide.html, formats; offsets are
    those of Java (UTF-16 units), and `Governor`/`Dependent` make a relation layer.
    """
    pytest.importorskip("cassis", reason=NEEDS_FORMATS)
    (folder / "export").mkdir()
    (folder / "export/TypeSystem.xml").write_text(TYPE_SYSTEM)
    (folder / "export/one.txt.xmi").write_text(XMI)
    return folder / "export"


BIOC_XML = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE collection SYSTEM "BioC.dtd">
<collection><source>PubTator</source><date></date><key>BioC.key</key>
<document><id>17299597</id>
<passage><infon key="type">title</infon><offset>0</offset><text>Nausea after aspirin.</text>
<annotation id="1"><infon key="identifier">MESH:D009325</infon><infon key="type">Disease</infon>
<location offset="0" length="6"/><text>Nausea</text></annotation></passage>
<passage><infon key="type">abstract</infon><offset>22</offset>
<text>Pain in knees and 😀 hips. It went.</text>
<annotation id="2"><infon key="type">Disease</infon><location offset="22" length="7"/>
<location offset="42" length="4"/><text>Pain in hips</text></annotation>
<relation id="R1"><infon key="type">x</infon><node refid="1" role="a"/></relation></passage>
</document>
<document><id>2</id><passage><offset>0</offset>
<sentence><offset>0</offset><text>One rash.</text><annotation id="3">
<infon key="type">Disease</infon><location offset="4" length="4"/><text>rash</text></annotation>
</sentence><sentence><offset>10</offset><text>No more.</text></sentence></passage></document>
</collection>
"""


def bioc(folder: Path) -> Path:
    """BioC XML with the DTD of https://bioc.sourceforge.net, annotated as PubTator does."""
    pytest.importorskip("bioc", reason=NEEDS_FORMATS)
    path = folder / "collection.xml"
    path.write_text(BIOC_XML)
    return path


def bioc_json(folder: Path) -> Path:
    """BioC JSON of PubTator 3's API: https://www.ncbi.nlm.nih.gov/research/pubtator3/api."""
    pytest.importorskip("bioc", reason=NEEDS_FORMATS)
    passage = {
        "infons": {"type": "title"},
        "offset": 0,
        "text": "Nausea after aspirin.",
        "sentences": [],
        "annotations": [
            {
                "id": "1",
                "infons": {"identifier": "MESH:D001241", "type": "Chemical"},
                "text": "aspirin",
                "locations": [{"offset": 13, "length": 7}],
            }
        ],
        "relations": [],
    }
    document = {"_id": "9|None", "id": "9", "infons": {}, "passages": [passage], "relations": []}
    path = folder / "pubtator.json"
    path.write_text(json.dumps({"PubTator3": [document]}))
    return path


def pubtator(folder: Path) -> Path:
    """PubTator: https://www.ncbi.nlm.nih.gov/research/pubtator3/tutorial; relations as in CDR."""
    pytest.importorskip("bioc", reason=NEEDS_FORMATS)
    path = folder / "CDR_sample.txt"
    path.write_text(
        "6794356|t|Tricuspid 😀 regurgitation and lithium.\n6794356|a|A case report.\n"
        "6794356\t10\t25\t😀 regurgitation\tDisease\tD014262\n"
        "6794356\t30\t37\tlithium\tChemical\tD008094\n6794356\tCID\tD008094\tD014262\n\n"
        "8|t|Rash\n8|a|\n8\t0\t4\tRash\tDisease\n\n"
    )
    return path


def label_studio(folder: Path) -> Path:
    """Label Studio's JSON export: https://labelstud.io/guide/task_format (one array, one line)."""
    regions = [
        {
            "value": {"start": start, "end": end, "text": TEXT[start:end], "labels": [label]},
            "id": label,
            "from_name": "label",
            "to_name": "text",
            "type": "labels",
            "origin": "manual",
        }
        for (start, end), label in ((NAUSEA, "ADE"), (ASPIRIN, "Drug"))
    ]
    annotation = {
        "id": 9,
        "completed_by": 1,
        "was_cancelled": False,
        "ground_truth": False,
        "result": [*regions, {"from_id": "ADE", "to_id": "Drug", "type": "relation"}],
    }
    task = {"id": 1, "annotations": [annotation], "predictions": [], "data": {"text": TEXT}}
    skipped = task | {"id": 2, "annotations": [annotation | {"was_cancelled": True}]}
    path = folder / "project-1-at-2024-01-01.json"
    path.write_text(json.dumps([task, skipped]))
    return path


def prodigy(folder: Path) -> Path:
    """Prodigy's db-out: https://prodi.gy/docs/api-interfaces#ner_manual."""
    words = [(0, 2), (3, 4), (5, 11), (12, 17), (18, 25), (25, 26), (27, 29), (30, 34), (35, 40)]
    task = {
        "text": TEXT,
        "_input_hash": -1,
        "_task_hash": 5,
        "_view_id": "ner_manual",
        "tokens": [
            {"text": TEXT[a:b], "start": a, "end": b, "id": number, "ws": True}
            for number, (a, b) in enumerate(words)
        ],
        "spans": [
            {"start": 5, "end": 11, "token_start": 2, "token_end": 2, "label": "ADE"},
            {"start": 18, "end": 25, "token_start": 4, "token_end": 4, "label": "Drug"},
        ],
        "answer": "accept",
        "_timestamp": 1,
    }
    rejected = task | {"answer": "reject"}
    path = folder / "annotations.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in (task, rejected)))
    return path


def doccano(folder: Path) -> Path:
    """Doccano's JSONL: https://doccano.github.io/doccano/tutorial/#export-the-dataset.

    Offsets are those of JavaScript: doccano/doccano#2290.
    """
    first = {"id": 1, "text": TEXT, "label": [[6, 12, "ADE"], [19, 26, "Drug"]], "Comments": []}
    second = {"id": 2, "text": "No rash.", "label": [], "Comments": []}
    path = folder / "all.jsonl"
    lines = (json.dumps(each, ensure_ascii=False) + "\n" for each in (first, second))
    path.write_text("".join(lines))
    return path


def i2b2(folder: Path) -> Path:
    """i2b2 2014 de-identification: a file for each record (Stubbs and Uzuner 2015)."""
    pytest.importorskip("lxml", reason=NEEDS_FORMATS)
    root = folder / "testing"
    root.mkdir()
    (root / "110-01.xml").write_text(
        '<?xml version="1.0" encoding="UTF-8" ?>\n<deIdi2b2>\n<TEXT><![CDATA[\n'
        "Ow 😀 Dr. Anna Lee & son <called> on 2067-05-03.\n]]></TEXT>\n<TAGS>\n"
        '<NAME id="P0" start="10" end="18" text="Anna Lee" TYPE="DOCTOR" comment="" />\n'
        '<DATE id="P1" start="37" end="47" text="2067-05-03" TYPE="DATE" comment="" />\n'
        "</TAGS>\n</deIdi2b2>\n"
    )
    return root


def presidio(folder: Path) -> Path:
    """Presidio's generator: https://github.com/microsoft/presidio-research (data generator)."""
    spans = [
        {
            "entity_type": "DRUG",
            "entity_value": "Aspirin",
            "start_position": 18,
            "end_position": 25,
        },
        {"entity_type": "ADE", "entity_value": "nausea", "start_position": 5, "end_position": 11},
    ]
    records = [
        {"full_text": TEXT, "masked": "...", "spans": spans, "template_id": 87, "metadata": None},
        {"full_text": "No.", "masked": "No.", "spans": [], "template_id": 41, "metadata": None},
    ]
    path = folder / "synth_dataset.json"
    path.write_text(json.dumps(records, indent=4, ensure_ascii=False))
    return path


def phi_queries(folder: Path) -> Path:
    """Questions with their identifiers: JamesWeatherhead/synthetic-phi-query-framework."""
    path = folder / "synthetic_dataset.txt"
    path.write_text(
        "===QUERY===\nIs 😀 Anna S. (MRN: 123) ready?\n===PHI_TAGS===\n"
        '{"identifier_type": "NAME", "value": "Anna S."}\n'
        '{"identifier_type": "ID", "value": "123"}\n\n'
        "===QUERY===\nWhat now?\n===PHI_TAGS===\n"
    )
    return path


def docbin(folder: Path) -> Path:
    """DocBin as `spacy convert` and `data-to-spacy` write it: https://spacy.io/api/docbin."""
    spacy = pytest.importorskip("spacy", reason=NEEDS_SPACY)
    from spacy.tokens import DocBin

    nlp = spacy.blank("en")
    doc = nlp(TEXT)
    doc.ents = [doc.char_span(*NAUSEA, label="ADE"), doc.char_span(*ASPIRIN, label="PERSON")]
    doc.spans["sc"] = [doc.char_span(5, 25, label="Event")]
    doc.spans["guesses"] = [doc.char_span(0, 2, label="Event")]
    plain = nlp("No rash.")
    path = folder / "train.spacy"
    DocBin(docs=[doc, plain]).to_disk(path)
    return path


def hf_tokens(folder: Path) -> Path:
    """Token classification of the hub, JSONL: https://huggingface.co/docs/datasets/loading#json.

    The names of the tags stand in dataset_info.json, as `datasets` writes it.
    """
    root = folder / "dataset"
    (root / "data").mkdir(parents=True)
    rows = [
        {"id": "0", "tokens": ["Ow", "😀", "mild", "nausea", "."], "ner_tags": [0, 0, 1, 2, 0]},
        {"id": "1", "tokens": ["Aspirin", "helps"], "ner_tags": [3, 0]},
    ]
    (root / "data/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = ["O", "B-ADE", "I-ADE", "B-Drug", "I-Drug"]
    feature = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "Sequence"}
    (root / "dataset_info.json").write_text(json.dumps({"features": {"ner_tags": feature}}))
    return root


def hf_parquet(folder: Path) -> Path:
    """The same as parquet, with the metadata that `datasets` puts into the schema."""
    pyarrow = pytest.importorskip("pyarrow", reason=NEEDS_FORMATS)
    parquet = pytest.importorskip("pyarrow.parquet", reason=NEEDS_FORMATS)
    names = ["O", "B-ADE", "I-ADE"]
    feature = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "Sequence"}
    table = pyarrow.table(
        {"tokens": [["Ow", "nausea"], ["x"]], "ner_tags": pyarrow.array([[0, 1], [0]])}
    ).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": {"ner_tags": feature}}})}
    )
    path = folder / "train-00000-of-00001.parquet"
    parquet.write_table(table, path)
    return path


def jsonl(folder: Path) -> Path:
    """fedner's own."""
    path = folder / "clinic.jsonl"
    records = [
        {"fedner": "corpus", "version": 1, "name": "clinic", "labels": ["ADE"]},
        {
            "id": "1",
            "text": TEXT,
            "spans": [{"start": 5, "end": 11, "label": "ADE"}],
            "segments": [{"start": 0, "end": 26, "tokens": [[0, 2], [3, 4]]}],
        },
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return path


def columns(folder: Path) -> Path:
    """CoNLL 2003: https://www.clips.uantwerpen.be/conll2003/ner/."""
    path = folder / "eng.train"
    path.write_text(
        "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\nGerman JJ I-NP I-MISC\n\n"
        "Peter NNP I-NP I-PER\nBlackburn NNP I-NP I-PER\n"
    )
    return path


FIXTURES: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "cadec": ("cadec", cadec),
    "ade": ("ade", ade),
    "smm4h": ("smm4h", smm4h),
    "brat": ("brat", brat),
    "xmi": ("xmi", xmi),
    "i2b2": ("i2b2", i2b2),
    "bioc": ("bioc", bioc),
    "bioc-json": ("bioc", bioc_json),
    "pubtator": ("pubtator", pubtator),
    "docbin": ("docbin", docbin),
    "hf-tokens": ("hf-tokens", hf_tokens),
    "hf-parquet": ("hf-tokens", hf_parquet),
    "label-studio": ("label-studio", label_studio),
    "presidio": ("presidio", presidio),
    "phi-queries": ("phi-queries", phi_queries),
    "prodigy": ("prodigy", prodigy),
    "doccano": ("doccano", doccano),
    "jsonl": ("jsonl", jsonl),
    "columns": ("columns", columns),
}
"""Every fixture by name: the format that it must be recognised as, and what writes it."""
