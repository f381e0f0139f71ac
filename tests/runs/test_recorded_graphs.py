"""`engine.recorded_graphs`: who records, and who does not."""

from collections.abc import Callable

import pytest
from opened_sites import opened

from fedner.models.graphed import RecordedSteps
from fedner.runs.site_platform import learner as learner_of
from fedner.settings import Settings, SettingsError

Make = Callable[..., Settings]


def steps_of(settings: Settings) -> RecordedSteps | None:
    return learner_of(opened(settings)["case-reports"]).recorded


def test_nothing_is_recorded_on_a_cpu(tiny: Make) -> None:
    assert tiny().engine.recorded_graphs == "auto"
    assert steps_of(tiny()) is None


@pytest.mark.parametrize(("mode", "is_recording"), [("auto", True), ("off", False)])
def test_the_setting_reaches_the_platforms(
    mode: str, is_recording: bool, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecordedSteps, "fits", staticmethod(lambda *_: True))
    steps = steps_of(tiny(f"engine.recorded_graphs={mode}"))
    assert steps is not None
    assert steps.is_recording == is_recording
    learner = learner_of(opened(tiny())["case-reports"])
    assert learner.recorded is not None
    assert learner.recorded.tagger is learner.tagger
    assert len(learner.recorded.corpus) == len(learner.corpus), "the training part alone"


def test_another_word_is_refused_by_its_key(tiny: Make) -> None:
    with pytest.raises(SettingsError, match=r"engine\.recorded_graphs"):
        tiny("engine.recorded_graphs=always")
