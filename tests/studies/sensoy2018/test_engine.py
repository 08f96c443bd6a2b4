import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from filelock import FileLock
from tests.studies.sensoy2018.killed import experiment
from tests.studies.sensoy2018.small import DIGITS, PARTS, one

from nescio.errors import InputError, NescioError, TrainingError
from nescio.studies.sensoy2018 import engine
from nescio.studies.sensoy2018.engine import Told, missing, run_all, run_folder, run_one, trained
from nescio.studies.sensoy2018.experiments import COMPARED, Changes, Line
from nescio.studies.sensoy2018.results import new_result, read_result, result_path

EPOCHS = 6
SMALL_NAMES = {line.variant for line in DIGITS.lines}


def numbers(path):
    """Everything in a result file but when and where it was made."""
    return {name: value for name, value in json.loads(path.read_text()).items() if name != "made"}


def start(folder):
    command = [sys.executable, "-m", "tests.studies.sensoy2018.killed", str(folder), str(EPOCHS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finish(process):
    output = process.communicate(timeout=240)[0].decode()
    assert process.returncode == 0, output


def rows(folder):
    path = run_folder(folder, experiment(EPOCHS)) / "metrics.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def test_killed_and_started_again_it_ends_with_the_numbers_of_another_process(tmp_path):
    killed = start(tmp_path / "killed")
    while len(rows(tmp_path / "killed")) < 2:
        assert killed.poll() is None, killed.communicate()[0].decode()
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    before = rows(tmp_path / "killed")
    assert 2 <= len(before) < EPOCHS
    again = start(tmp_path / "killed")
    run_one(experiment(EPOCHS), tmp_path / "whole")
    finish(again)
    after = rows(tmp_path / "killed")
    assert after[: len(before)] == before  # with their seconds: these epochs were not trained again
    assert len(after) == EPOCHS
    paths = [result_path(tmp_path / name, experiment(EPOCHS)) for name in ("whole", "killed")]
    assert numbers(paths[0]) == numbers(paths[1])
    assert set(read_result(paths[0]).parts) == {"training", "known", "fgsm", "pgd"}


def test_every_part_is_there(folder):
    for each in DIGITS.experiments():
        assert set(read_result(result_path(folder, each)).parts) == {"training", *each.parts}
    assert set(read_result(result_path(folder, one("edl"))).parts) == set(PARTS)


def test_a_second_call_computes_nothing(folder, monkeypatch):
    path = result_path(folder, one("edl"))
    before = path.read_bytes(), path.stat().st_mtime_ns
    monkeypatch.setattr(engine, "trained", None)
    monkeypatch.setattr(engine, "measure", None)
    said = []
    (result,) = run_all([one("edl")], folder, Told(said.append))
    assert result == read_result(path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert said == []


@pytest.fixture
def copied(folder, tmp_path):
    """EDL's result and both models, to be changed."""
    for each in (one("edl"), one("l2")):
        target = run_folder(tmp_path, each)
        target.mkdir(parents=True)
        for name in ("model.safetensors", "metrics.jsonl"):
            (target / name).write_bytes((run_folder(folder, each) / name).read_bytes())
    target = result_path(tmp_path, one("edl"))
    target.parent.mkdir(parents=True)
    target.write_bytes(result_path(folder, one("edl")).read_bytes())
    return tmp_path


def test_what_is_missing_is_computed_and_the_same(copied, folder, monkeypatch):
    path = result_path(copied, one("edl"))
    data = json.loads(path.read_text())
    kept = data["parts"].pop("transfer"), data["parts"].pop("rotation")
    path.write_text(json.dumps(data))
    monkeypatch.setattr("nescio.inference.model.TrainedModel.train", None)
    said = []
    run_one(one("edl"), copied, Told(said.append))
    assert said == ["digits/edl-0: rotation, transfer measured"]
    again = numbers(path)
    assert (again["parts"]["transfer"], again["parts"]["rotation"]) == kept
    assert again == numbers(result_path(folder, one("edl")))


def test_a_part_with_other_settings_is_measured_again(copied, monkeypatch):
    monkeypatch.setattr("nescio.inference.model.TrainedModel.train", None)
    study = replace(DIGITS, measuring=replace(DIGITS.measuring, pgd=(0.0, 0.2)))
    other = one("edl", study=study)
    assert missing(other, read_result(result_path(copied, other))) == ["pgd"]
    result = run_one(other, copied)
    assert result.numbers("pgd")["curve"]["epsilon"] == [0.0, 0.2]
    assert missing(other, result) == []


def longer(variant="edl"):
    return one(variant, study=replace(DIGITS, training=replace(DIGITS.training, epochs=3)))


def test_a_training_with_other_settings_is_refused_before_any_work(copied, monkeypatch):
    monkeypatch.setattr(engine, "run_one", None)
    with pytest.raises(TrainingError, match=r"edl-0.json was trained with other settings \(training.epochs"):
        run_all([longer()], copied)


def test_a_result_with_other_settings_is_refused_wherever_it_lies(copied):
    """A worker of a cluster may find an old file in its own folder."""
    with pytest.raises(TrainingError, match="was trained with other settings"):
        run_one(longer(), copied)


def test_data_that_cannot_be_had_is_told_of_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "trained", None)
    study = replace(DIGITS, strangers="moons")
    with pytest.raises(InputError, match="there is no data set 'moons'"):
        run_all(study.experiments(), tmp_path)
    without = [replace(each, parts=("known",)) for each in study.experiments()]
    with pytest.raises(
        TypeError, match="NoneType"
    ):  # nobody asks about strangers: the training, taken away here, begins
        run_all(without, tmp_path)


def test_parts_that_another_process_adds_meanwhile_are_kept(copied, monkeypatch):
    path = result_path(copied, one("edl"))
    data = json.loads(path.read_text())
    theirs, ours = data["parts"].pop("known"), data["parts"].pop("rotation")
    path.write_text(json.dumps(data))
    measure = engine.measure

    def measure_beside_another(*given):
        now = json.loads(path.read_text())
        path.write_text(json.dumps(now | {"parts": now["parts"] | {"known": theirs}}))
        return measure(*given)

    monkeypatch.setattr(engine, "measure", measure_beside_another)
    result = run_one(replace(one("edl"), parts=("rotation",)), copied)
    assert (result.parts["known"], result.parts["rotation"]) == (theirs, ours)
    assert read_result(path) == result


def test_what_another_process_measured_while_we_waited_is_not_measured_again(copied, monkeypatch):
    path = result_path(copied, one("edl"))
    whole = path.read_bytes()
    data = json.loads(whole)
    del data["parts"]["rotation"]
    path.write_text(json.dumps(data))
    train = engine.trained

    def trained_beside_another(*given):
        path.write_bytes(whole)
        return train(*given)

    monkeypatch.setattr(engine, "trained", trained_beside_another)
    monkeypatch.setattr(engine, "measure", None)
    said = []
    assert "rotation" in run_one(one("edl"), copied, Told(said.append)).parts
    assert said == []


def test_waiting_for_another_process_is_told(copied):
    held = FileLock(run_folder(copied, one("edl")) / "lock")
    held.acquire()
    said = []

    def waits(line):
        said.append(line)
        held.release()

    trained(one("edl"), copied, Told(waits))
    assert said == ["digits/edl-0: another process is at it; waiting"]


def test_a_model_with_other_settings_is_refused(copied):
    with pytest.raises(TrainingError, match=r"l2-0 holds another training \(training.epochs differ\)"):
        trained(longer("l2"), copied)


def test_a_damaged_result_is_named(copied):
    result_path(copied, one("edl")).write_text("{")
    with pytest.raises(NescioError, match=r"edl-0\.json is damaged"):
        run_all([one("edl")], copied)


def test_progress_is_told(tmp_path):
    said, epochs = [], []
    each = replace(one("edl-paper-bias-0", study=_with_bias_0()), parts=("known",))
    run_one(each, tmp_path, Told(said.append, lambda name, metrics: epochs.append((name, metrics["epoch"]))))
    assert said[0] == "digits/edl-paper-bias-0-0: training, 1 epochs"
    assert said[-1] == "digits/edl-paper-bias-0-0: training, known measured"
    assert epochs == [("digits/edl-paper-bias-0-0", 1)]


def test_warnings_of_a_training_are_told_once(tmp_path, recwarn):
    said = []
    each = replace(one("edl-paper-bias-0", study=_with_bias_0({"output_bias": -50.0})), parts=("known",))
    result = run_one(each, tmp_path, Told(said.append))
    assert sum("no evidence on any input" in line for line in said) == 1
    assert result.numbers("known")["evidence"]["dead"] == list(range(10))
    assert result.numbers("known")["evidence"]["rejected"] == 1
    assert result.numbers("known")["scores"]["accuracy"] == 0
    assert not recwarn.list


def _with_bias_0(method=None):
    training = {"epochs": 1, "batch_size": 512, "learning_rate": 1e-6}
    changes = {"edl-paper-bias-0": Changes(method or {}, training=training)}
    return replace(DIGITS, lines=(Line("edl-paper-bias-0"),), changes=changes)


def test_settings_that_a_method_does_not_have(copied):
    study = replace(DIGITS, changes={"edl": Changes(measured={"samples": 3})})
    with pytest.raises(InputError, match="settings do not fit the method edl"):
        run_one(one("edl", study=study), copied)


@pytest.mark.parametrize("variant", [name for name in COMPARED if name not in SMALL_NAMES])
def test_every_other_method_is_trained_and_measured_too(copied, variant):
    method = {"num_members": 2} if variant == "ensemble" else {}
    samples = {} if variant == "ensemble" else {"samples": 2}
    changes = {variant: Changes(method, training={"epochs": 1}, measured=samples)}
    study = replace(DIGITS, lines=(Line(variant),), changes=changes)
    result = run_one(one(variant, study=study), copied)
    assert set(result.parts) == set(PARTS)
    assert result.numbers("known")["scores"]["accuracy"] > 0.2
    assert result.numbers("fgsm")["without_gradient"] == 0
    assert len(result.numbers("training")["loss"]) == method.get("size", 1)


def test_all_is_missing_at_first():
    assert missing(one("edl"), new_result(one("edl"))) == list(PARTS)
