"""Label Studio's JSON and JSON-MIN exports of text labelling.

    [{"id": 1, "data": {"text": "Nausea after aspirin."}, "annotations": [{"id": 5,
      "was_cancelled": false, "result": [{"id": "a", "from_name": "label", "to_name": "text",
      "type": "labels", "value": {"start": 13, "end": 20, "text": "aspirin",
      "labels": ["Drug"]}}]}], "predictions": []}]
    [{"id": 1, "text": "...", "label": [{"start": 13, "end": 20, "text": "aspirin",
      "labels": ["Drug"]}], "annotator": 1, "annotation_id": 5, "lead_time": 4.2}]

See https://labelstud.io/guide/export and https://labelstud.io/guide/task_format. Offsets count
UTF-16 units in old versions and characters since the end of 2021 (issues 1347 and 1559 of
HumanSignal/label-studio): the quoted text tells which. A task that nobody annotated is left out; of
several annotations the ground truth is taken, or else the first.
"""

from pathlib import Path
from typing import Any

from fedner.corpus.document import Document, Fragment, Span
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers import standoff, utf16
from fedner.corpus.readers.json_records import (
    MalformedError,
    RecordForm,
    as_list,
    as_name,
    as_object,
    as_offset,
    as_text,
    identity_of,
    probe,
    record_reader,
    type_name,
)

REMARK_UNITS = "mention with offsets in UTF-16 units, as JavaScript counts (converted)"
REMARK_UNANNOTATED = "task that nobody annotated (left out)"
REMARK_SEVERAL = "further annotation of a task (left out)"
REMARK_NO_LABEL = "region without a label (left out)"

_LISTS = ("annotations", "completions")  # completions: before version 1.0
_MIN_KEYS = {"annotation_id", "annotator"}


def _reason(path: Path) -> str | None:
    found = probe(path)
    if found is None:
        return None
    if "data" in found.keys and found.keys & {*_LISTS, "predictions"}:
        data = None if found.record is None else found.record["data"]
        if found.record is None or isinstance(data, dict):
            return "the first record has data and annotations"
    if found.keys >= _MIN_KEYS:
        return "the first record has annotator and annotation_id (JSON-MIN)"
    return None


def _document(
    record: dict[str, Any], path: Path, line: int, source: str, log: ProblemLog
) -> Document | None:
    identity = identity_of(record, f"{source}#{line}")
    if isinstance(record.get("data"), dict):
        regions = _chosen(record, log)
        if regions is None:
            return None
        text = _text_of(record["data"], regions)
    else:
        regions, text = _minimal(record)
    spans: list[Span] = []
    for number, region in enumerate(regions, 1):
        try:
            mentions = _mentions(region, number, line, text, log)
        except MalformedError as fault:
            problem = fault.problem(path, line, "Fix the region; it is skipped.")
            log.skip_mention(problem, identity, "")
            continue
        placed = (standoff.place(each, text, path, identity, log) for each in mentions)
        spans.extend(span for span in placed if span is not None)
    return Document(identity, text, tuple(spans), source=source)


def _chosen(record: dict[str, Any], log: ProblemLog) -> list[dict[str, Any]] | None:
    """Return the regions of the one annotation that counts, or None where there is none."""
    key = next((key for key in _LISTS if key in record), _LISTS[0])
    made = [as_object(each) for each in as_list(record.get(key), key)]
    valid = [each for each in made if not each.get("was_cancelled")]
    if not valid:
        log.remark(REMARK_UNANNOTATED)
        return None
    for _ in valid[1:]:
        log.remark(REMARK_SEVERAL)
    best = next((each for each in valid if each.get("ground_truth")), valid[0])
    regions = []
    for result in as_list(best.get("result"), "result"):
        item = as_object(result)
        kind = item.get("type", "labels")
        if kind in ("labels", "hypertextlabels", "paragraphlabels"):
            value = dict(as_object(item.get("value")))
            value["to_name"] = item.get("to_name")
            regions.append(value)
        else:
            log.remark(f"Label Studio's {str(kind)[:40]} (left out)")
    return regions


def _text_of(data: dict[str, Any], regions: list[dict[str, Any]]) -> str:
    """Return the annotated text: named as the regions say, `text`, or the only one there is."""
    named = [region.get("to_name") for region in regions]
    for key in [*(name for name in named if isinstance(name, str)), "text"]:
        if isinstance(data.get(key), str):
            return as_text(data[key], key)
    texts = [key for key, value in data.items() if isinstance(value, str)]
    if len(texts) != 1:
        found = f"data with {', '.join(sorted(map(str, data)))[:100] or 'nothing'}"
        raise MalformedError(found, "one text, or one of the name text")
    return as_text(data[texts[0]], texts[0])


def _minimal(record: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """Return regions and text of a JSON-MIN record, whatever its labelling calls them."""
    regions: list[dict[str, Any]] = []
    for value in record.values():
        if isinstance(value, list) and value and all(_is_region(item) for item in value):
            regions.extend(value)
    if isinstance(record.get("text"), str):
        return regions, as_text(record["text"], "text")
    bookkeeping = {"created_at", "updated_at", "annotator", "id"}
    data = {
        key: value
        for key, value in record.items()
        if key not in bookkeeping and isinstance(value, str)
    }
    return regions, _text_of(data, [])


def _is_region(item: object) -> bool:
    return isinstance(item, dict) and "start" in item and "end" in item


def _mentions(
    region: dict[str, Any], number: int, line: int, text: str, log: ProblemLog
) -> list[standoff.TextBound]:
    """Return a mention for each label of a region."""
    place = region.get("globalOffsets", region)  # HTML: start and end are paths there
    if not isinstance(place, dict):
        raise MalformedError(f"globalOffsets of type {type_name(place)}", "an object")
    fragment = (as_offset(place.get("start"), "start"), as_offset(place.get("end"), "end"))
    quote = region.get("text")
    quote = quote if isinstance(quote, str) else None
    labels = [
        as_name(label, "label")
        for key in ("labels", "hypertextlabels", "paragraphlabels")
        for label in as_list(region.get(key), key)
    ]
    if not labels:
        log.remark(REMARK_NO_LABEL)
    fragment = _in_characters(fragment, quote, text, log)
    return [standoff.TextBound(line, f"#{number}", label, (fragment,), quote) for label in labels]


def _in_characters(fragment: Fragment, quote: str | None, text: str, log: ProblemLog) -> Fragment:
    """Return a range in characters; the quoted text tells whether it counted UTF-16 units."""
    start, end = fragment
    if not quote or not utf16.has_pairs(text) or text[max(0, start) : max(0, end)] == quote:
        return fragment
    convert = utf16.to_characters(text)
    converted = (convert(start), convert(end))
    if 0 <= converted[0] < converted[1] and text[slice(*converted)] == quote:
        log.remark(REMARK_UNITS)
        return converted
    return fragment


READER = record_reader(
    "label-studio",
    "Label Studio's JSON or JSON-MIN: data with annotations",
    RecordForm(_reason, _document, "Label Studio's tasks", "task"),
)
