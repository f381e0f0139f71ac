"""What only other rooms can judge in a federation file."""

from dataclasses import replace
from pathlib import Path

import pytest

from fedner.federated.algorithms import FednerSettings
from fedner.models.stages import StageRecipe
from fedner.models.zoo import RECIPES
from fedner.optimizers import OptimizerSettings
from fedner.runs.checks import algorithm_of, checked, read_settings
from fedner.settings import SettingsError

PLATFORMS = [
    {"name": "a", "data": "synthetic:case-reports"},
    {"name": "b", "data": "synthetic:forum-posts"},
]
SOUND = {"training": {"rounds": 3}, "platforms": PLATFORMS}


def told(tables: dict, folder: Path) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        checked(tables, folder)
    return {problem.key: str(problem) for problem in caught.value.problems}


def test_all_rooms_are_asked_at_once(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a\tO\n")
    problems = told(
        {
            "seed": "one",
            "model": {"recipe": "LSTM-CFR"},
            "embeddings": {"words": "vectors.txt", "context": "flair.npz"},
            "partition": {"shared": "fedenr"},
            "algorithm": {"name": "fednre"},
            "training": {"rounds": 3},
            "participation": {"sample": 5, "quorum": 9},
            "engine": {"workers": 2, "device": "auto"},
            "platforms": [
                {"name": "a", "data": "trian.tsv", "format": "colums"},
                {"name": "A", "data": "synthetic:case-report"},
                {
                    "name": "c",
                    "data": "train.tsv",
                    "format": "columns",
                    "options": {"scheme": "BOI", "tag_colum": 3, "token_column": "first"},
                    "labels": ["ADE"],
                    "label_map": {"Adverse": "ADR"},
                    "split": {"test_data": "test.tsv"},
                },
            ],
        },
        tmp_path,
    )
    assert set(problems) == {
        "seed",
        "model.recipe",
        "embeddings.words",
        "embeddings.context",
        "partition.shared",
        "algorithm.name",
        "participation.sample",
        "participation.quorum",
        "platforms[0].name",
        "platforms[0].data",
        "platforms[0].format",
        "platforms[1].name",
        "platforms[1].data",
        "platforms[2].label_map.Adverse",
        "platforms[2].options.scheme",
        "platforms[2].options.tag_colum",
        "platforms[2].options.token_column",
        "platforms[2].split.test_data",
    }
    assert "'LSTM-CRF'" in problems["model.recipe"]
    assert "'fedner'" in problems["partition.shared"]
    assert "'fedner'" in problems["algorithm.name"]
    assert "train.tsv?" in problems["platforms[0].data"]
    assert "'columns'" in problems["platforms[0].format"]
    assert "'case-reports'" in problems["platforms[1].data"]
    assert "'ADE'" in problems["platforms[2].label_map.Adverse"]
    assert 'Did you mean "tag_column"?' in problems["platforms[2].options.tag_colum"]
    assert "a whole number" in problems["platforms[2].options.token_column"]
    assert "BIOES" in problems["platforms[2].options.scheme"]


def test_parameters_of_an_algorithm_are_checked_by_its_own_record(tmp_path: Path) -> None:
    wrong = {"name": "fedner", "local_step": 2, "server_optimizer": {"rat": 1, "name": "adm"}}
    problems = told({**SOUND, "algorithm": wrong}, tmp_path)
    assert set(problems) == {
        "algorithm.local_step",
        "algorithm.server_optimizer.rat",
        "algorithm.server_optimizer.name",
    }
    assert "'local_steps'" in problems["algorithm.local_step"]
    assert "'adam'" in problems["algorithm.server_optimizer.name"]
    zero = told({**SOUND, "algorithm": {"name": "fedner", "local_steps": 0}}, tmp_path)
    assert set(zero) == {"algorithm"}


def test_parameters_reach_the_algorithm(tmp_path: Path) -> None:
    table = {
        "name": "fedner",
        "local_steps": 4,
        "server_optimizer": {"name": "sgd", "learning_rate": 1},
    }
    settings = checked({**SOUND, "algorithm": table}, tmp_path)
    algorithm = algorithm_of(settings)
    assert algorithm.steps(10, 100.0) == 4
    assert algorithm.batching == "joint"
    server = OptimizerSettings("sgd", 1.0, betas=(0.9, 0.999))  # what is left out keeps its default
    assert algorithm.identity == f"fedner {FednerSettings(server, local_steps=4)!r}"


def test_a_joint_batch_below_the_number_of_platforms_is_a_problem_unless_few_are_drawn(
    tmp_path: Path,
) -> None:
    small = {"rounds": 3, "batch_size": 1}
    assert set(told({**SOUND, "training": small}, tmp_path)) == {"training.batch_size"}
    checked({**SOUND, "training": small, "participation": {"sample": 1}}, tmp_path)
    checked({**SOUND, "training": small, "algorithm": {"name": "fedavg"}}, tmp_path)


def test_a_recipe_and_its_context_must_fit(tmp_path: Path) -> None:
    without = told({**SOUND, "model": {"recipe": "ELMoNER"}}, tmp_path)
    assert "CNN-CLSTM-CRF" in without["embeddings.context"]
    (tmp_path / "flair.npz").write_bytes(b"")
    unwanted = told({**SOUND, "embeddings": {"context": "flair.npz"}}, tmp_path)
    assert "ELMoNER" in unwanted["embeddings.context"]


def test_prefixes_of_no_module_are_named(tmp_path: Path) -> None:
    problems = told({**SOUND, "partition": {"shared": ["embeddings", "bilstn"]}}, tmp_path)
    assert "'bilstm'" in problems["partition.shared[1]"]


def test_a_stage_of_ones_own_may_be_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = {**SOUND, "partition": {"shared": ["embeddings", "highway"]}}
    assert "a module of the tagger" in told(shared, tmp_path)["partition.shared[1]"]
    recipe = replace(RECIPES["CNN-CLSTM-CRF"], extra_stages=(StageRecipe("highway", "any"),))
    monkeypatch.setitem(RECIPES, recipe.name, recipe)
    checked({**shared, "model": {"recipe": recipe.name}}, tmp_path)


def test_files_are_looked_for_beside_the_federation_file(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a\tB-X\n\nb\tO\n")
    path = tmp_path / "federation.toml"
    path.write_text(
        "[training]\nrounds = 2\nbatch_size = 4\n[[platforms]]\nname = 'a'\ndata = 'train.tsv'\n"
    )
    settings = read_settings(path, ("training.rounds=5",))
    assert settings.platforms[0].data == str(tmp_path / "train.tsv")
    assert settings.training.rounds == 5


@pytest.mark.parametrize("recipe", ["CNN-CLSTM-CRF", "LSTM-CRF", "CNN-LSTM-CRF", "BI-LSTM-CRF"])
def test_the_recipes_own_partition_is_the_default(tmp_path: Path, recipe: str) -> None:
    declared = [{**each, "labels": ["ADE", "Drug"]} for each in PLATFORMS]
    tables = {**SOUND, "platforms": declared, "model": {"recipe": recipe}}
    settings = checked(tables, tmp_path)
    assert settings.partition.shared == RECIPES[recipe].split
    own = {**tables, "partition": {"shared": "words"}}
    assert checked(own, tmp_path).partition.shared == "words"


def test_a_file_that_is_no_word_vectors_is_told_with_all_other_problems(tmp_path: Path) -> None:
    (tmp_path / "vectors").mkdir()
    tables = {**SOUND, "embeddings": {"words": "vectors"}, "training": {"rounds": 0}}
    problems = told(tables, tmp_path)
    assert "holds no word vectors" in problems["embeddings.words"]
    assert "training.rounds" in problems


def test_a_path_with_escapes_of_toml_is_told(tmp_path: Path) -> None:
    platforms = [{"name": "a", "data": "C:\temp"}]
    problems = told({**SOUND, "platforms": platforms}, tmp_path)
    assert "single quotes" in problems["platforms[0].data"]


def test_a_privacy_table_names_its_mechanism(tmp_path: Path) -> None:
    """Otherwise a target without a mechanism would be a run without any protection."""
    problems = told({**SOUND, "privacy": {"epsilon": 3.0, "simulation": True}}, tmp_path)
    [(key, text)] = problems.items()
    assert key.startswith("privacy")
    assert "a key mechanism, one of none, unit-local, unit-central, distributed, " in text
    off = {"mechanism": "none", "epsilon": 3.0}
    assert not checked({**SOUND, "privacy": off}, tmp_path).privacy.enabled
