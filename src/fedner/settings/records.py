"""Tables as frozen dataclasses: an algorithm's parameters are checked like every other key.

Algorithms keep their settings as plain dataclasses beside their code; the models that check them
are made from those, so that a new algorithm needs no second list of its parameters here.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from fedner.settings.problems import SettingProblem
from fedner.settings.reading import problems_of

Record = TypeVar("Record")


def record_from(
    kind: type[Record], table: Mapping[str, Any], prefix: str = ""
) -> tuple[Record | None, list[SettingProblem]]:
    """Return a dataclass filled from a table, or None and everything that is wrong with it.

    Args:
        kind: The dataclass; its fields may be dataclasses themselves.
        table: Values by name; what is left out keeps its default.
        prefix: What stands before the keys in messages, as "algorithm.".
    """
    model = _model_of(kind)
    try:
        values = model.model_validate_json(json.dumps(table, default=str), strict=True)
    except ValidationError as error:
        return None, problems_of(error, model, prefix)
    return _filled(kind, values), []


def _model_of(kind: type) -> type[BaseModel]:
    hints = get_type_hints(kind)
    made: dict[str, Any] = {}
    for each in fields(kind):
        annotation = hints[each.name]
        if is_dataclass(annotation) and isinstance(annotation, type):
            annotation = _model_of(annotation)
        is_required = each.default is MISSING and each.default_factory is MISSING
        # The dataclass knows its defaults: None only says that the key was left out.
        made[each.name] = (annotation, Field(default=... if is_required else None))
    config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    return create_model(kind.__name__, __config__=config, **made)


def _filled(kind: type[Record], values: BaseModel) -> Record:
    given: dict[str, Any] = {}
    hints = get_type_hints(kind)
    for name in values.model_fields_set:
        value = getattr(values, name)
        given[name] = _filled(hints[name], value) if isinstance(value, BaseModel) else value
    return kind(**given)
