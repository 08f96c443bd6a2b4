from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import pytest
from tests.studies.small import measurement, one

from nescio.studies.measurement import Measurement, TrainingCurve


def test_settings_are_the_fields_with_name_and_version():
    @dataclass(frozen=True)
    class Counted(Measurement):
        name: ClassVar[str] = "counted"
        version: ClassVar[int] = 3
        images: int

        def run(self, model, sources=()):
            return {"images": self.images}

    assert Counted(5).settings() == {"name": "counted", "version": 3, "images": 5}
    assert Counted(5).data == {}
    assert Counted(5).sources == ()


def test_a_measurement_without_run_fails_when_it_is_made():
    class Nothing(Measurement):
        name = "nothing"

    with pytest.raises(TypeError, match="run"):
        Nothing()


def test_the_plan_of_a_source_stands_among_the_settings():
    transfer = measurement(one("edl"), "transfer")
    assert transfer.settings()["source"] == one("l2").plan.description()


def test_the_training_curve_is_the_history_without_its_times():
    rows = [{"epoch": 1, "loss": 2.0, "seconds": 9.0}, {"epoch": 2, "loss": 1.0, "seconds": 8.0}]
    model = SimpleNamespace(training={"history": rows})
    assert TrainingCurve().run(model) == {"epoch": [1, 2], "loss": [2.0, 1.0]}


def test_the_training_curve_has_the_images_kept_apart(results):
    curve = results.numbers("digits", "edl", "training")[0]
    assert curve["epoch"] == [1, 2]
    assert len(curve["held_out_accuracy"]) == 2
    assert "held_out_accuracy" not in results.numbers("dead_classes", "edl-relu", "training")[0]
