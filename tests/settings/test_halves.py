"""Two halves that never mix: a study, the platforms' own settings, and one file that has both."""

from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from fedner.errors import FednerError
from fedner.settings import (
    OwnEmbeddings,
    PlatformEntry,
    PlatformSettings,
    Settings,
    Study,
    StudyEmbeddings,
    StudyPlatform,
    federation_of,
    parse,
    platform_settings_of,
    study_of,
)

WORDS = SimpleNamespace(name="glove", sha256="a" * 64, dimension=50, layers=1)
ENCODER = SimpleNamespace(name="minilm", sha256="b" * 64, dimension=384, layers=2)

# Which half a key of federation.toml belongs to.
STUDY, PLATFORM, SIMULATION = "study", "platform", "simulation"
HALF = {
    "title": STUDY,
    "seed": STUDY,
    "types": STUDY,
    "model": STUDY,
    "embeddings.words": PLATFORM,
    "embeddings.dimension": STUDY,
    "embeddings.buckets": STUDY,
    "embeddings.lowercase": STUDY,
    "embeddings.unknown": STUDY,
    "embeddings.trainable": STUDY,
    "embeddings.context": PLATFORM,
    "embeddings.cache": PLATFORM,
    "partition": STUDY,
    "algorithm": STUDY,
    "local_optimizer": STUDY,
    "privacy": STUDY,
    "training": STUDY,
    "participation": STUDY,
    "release": STUDY,
    "transport": STUDY,
    "engine": SIMULATION,
    "platforms.name": STUDY,
    "platforms.public_size": STUDY,
    "platforms.labels": STUDY,
    "platforms.tag_scheme": STUDY,
    "platforms.data": PLATFORM,
    "platforms.num_sentences": PLATFORM,
    "platforms.shard": PLATFORM,
    "platforms.format": PLATFORM,
    "platforms.lenient": PLATFORM,
    "platforms.options": PLATFORM,
    "platforms.encoding": PLATFORM,
    "platforms.patients": PLATFORM,
    "platforms.label_map": PLATFORM,
    "platforms.types": PLATFORM,
    "platforms.sentences": PLATFORM,
    "platforms.flatten": PLATFORM,
    "platforms.max_tokens": PLATFORM,
    "platforms.split": PLATFORM,
    "platforms.ledger": PLATFORM,
    "platforms.device": PLATFORM,
    "platforms.recorded_graphs": PLATFORM,
    "platforms.embeddings": PLATFORM,
    "platforms.policy": PLATFORM,
}


def full(**changes: Any) -> dict[str, Any]:
    tables = {
        "title": "three clinics",
        "embeddings": {"words": "/home/CANARY-words", "context": "/home/CANARY-context",
                       "cache": "/home/CANARY-cache", "dimension": 7},
        "training": {"rounds": 3, "baselines": ["local-only", "centralized"]},
        "engine": {"workers": 2, "device": "auto"},
        "platforms": [
            {
                "name": "clinic",
                "data": "/home/CANARY-data",
                "format": "CANARY-format",
                "options": {"scheme": "CANARY-scheme"},
                "encoding": "CANARY-encoding",
                "patients": {"file": "CANARY-patients"},
                "label_map": {"CANARY-old": "ADE", "CANARY-gone": ""},
                "types": {"CANARY-type": "CANARY-described"},
                "split": {"test_data": "CANARY-test"},
                "ledger": "CANARY-ledger",
                "embeddings": {"words": "CANARY-own-words"},
                "policy": {"mechanisms": ["CANARY"], "max_rounds": 98765, "epsilon": 3.25},
                "num_sentences": 98764,
                "shard": "987/988",
                "max_tokens": 98763,
                "labels": ["ADE", "Drug"],
                "public_size": 400,
                "tag_scheme": "BIOES",
            },
            {"name": "ward", "data": "CANARY-ward"},
        ],
    }  # fmt: skip
    return tables | changes


def study() -> Study:
    return study_of(parse(full()), {"clinic": 1, "ward": 250}, WORDS, ENCODER)


def leaves(model: type[BaseModel], prefix: str, whole: tuple[str, ...]) -> list[str]:
    return [
        f"{prefix}{key}" for key in model.model_fields if f"{prefix}{key}" not in whole
    ]  # fmt: skip


def test_every_key_of_a_federation_file_belongs_to_one_half() -> None:
    keys = leaves(Settings, "", ("embeddings", "platforms"))
    keys += leaves(Settings.model_fields["embeddings"].annotation, "embeddings.", ())  # type: ignore[arg-type]
    keys += leaves(PlatformEntry, "platforms.", ())
    assert sorted(keys) == sorted(HALF)


def test_a_study_has_the_public_keys_and_no_other() -> None:
    public = {key for key, half in HALF.items() if half == STUDY}
    held = {key for key in Study.model_fields if key not in ("embeddings", "platforms")}
    assert held == {key for key in public if "." not in key}
    assert {f"platforms.{key}" for key in StudyPlatform.model_fields} == {
        key for key in public if key.startswith("platforms.")
    }
    embeddings = {f"embeddings.{key}" for key in StudyEmbeddings.model_fields}
    # By name and digest there, by path in platform.toml.
    by_name = {"embeddings.words", "embeddings.context"}
    assert embeddings - by_name == {key for key in public if key.startswith("embeddings.")}


def test_platform_settings_have_the_private_keys_and_the_name() -> None:
    private = {key for key, half in HALF.items() if half == PLATFORM and "platforms." in key}
    held = {f"platforms.{key}" for key in PlatformSettings.model_fields}
    assert held == private | {"platforms.name"}
    assert {f"embeddings.{key}" for key in OwnEmbeddings.model_fields} == {
        key for key, half in HALF.items() if half == PLATFORM and key.startswith("embeddings.")
    }


def test_nothing_private_is_in_a_study() -> None:
    text = study().canonical
    for private in ("CANARY", "9876", "987/988", "3.25", "/home"):
        assert private not in text
    assert '"glove"' in text


def test_a_study_names_embeddings_by_digest_and_platforms_by_what_they_declare() -> None:
    made = study()
    assert made.embeddings.words is not None
    assert made.embeddings.words.digest == "a" * 64
    assert made.embeddings.context is not None
    assert made.embeddings.context.layers == 2
    assert made.embeddings.dimension == 7
    assert made.public_sizes == {"clinic": 400, "ward": 250}
    assert made.platform("clinic").labels == ("ADE", "Drug")
    assert made.platform("ward").labels is None
    assert made.tag_scheme("clinic") == "BIOES"
    assert made.tag_scheme("ward") == "BIO"
    assert made.training.baselines == ("local-only",)


def test_built_in_types_are_public() -> None:
    found = study_of(parse(full()), {"ward": 2}, WORDS, ENCODER, {"ward": ("b", "a")})
    assert found.platform("ward").labels == ("a", "b")


def test_the_digest_is_of_what_the_study_says_not_of_how() -> None:
    made = study()
    again = Study.model_validate_json(made.canonical, strict=True)
    assert again == made
    assert again.digest == made.digest
    assert len(made.digest) == 64
    changed = made.model_copy(update={"seed": 2})
    assert changed.digest != made.digest


def test_a_platform_gets_the_paths_and_the_device_of_the_file_or_its_own() -> None:
    clinic = platform_settings_of(parse(full()), "clinic")
    assert clinic.embeddings.words == "CANARY-own-words"
    assert clinic.embeddings.context == "/home/CANARY-context"
    assert clinic.device == "auto"
    assert clinic.policy.epsilon == 3.25
    assert not hasattr(clinic, "labels")
    hashed = parse(full(embeddings={}))
    assert platform_settings_of(hashed, "ward").embeddings.words is None


def test_both_halves_make_the_federation_again() -> None:
    federation = parse(full())
    own = [platform_settings_of(federation, name) for name in ("ward", "clinic")]
    again = federation_of(study(), own, federation.engine)
    assert [each.name for each in again.platforms] == ["clinic", "ward"]
    assert study_of(again, {}, WORDS, ENCODER) == study()
    assert [platform_settings_of(again, each.name) for each in own] == own


def test_a_federation_needs_every_platform_once() -> None:
    own = platform_settings_of(parse(full()), "clinic")
    for wrong in ([], [own], [own, own]):
        with pytest.raises(FednerError, match="expected one each of clinic, ward"):
            federation_of(study(), wrong)


def test_what_a_study_needs_and_the_file_does_not_say_is_named() -> None:
    with pytest.raises(FednerError, match=r"embeddings\.context"):
        study_of(parse(full()), {"ward": 1}, WORDS)
    with pytest.raises(FednerError, match="ward has no public size"):
        study_of(parse(full()), {}, WORDS, ENCODER)
