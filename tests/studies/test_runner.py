import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from filelock import FileLock
from tests.processes import environment
from tests.studies.killed import experiment
from tests.studies.small import DIGITS, MEASURED, one, with_epochs
from tests.studies.two_nodes import experiments

from nescio.errors import InputError, MissingExtraError, TrainingError
from nescio.studies import runner
from nescio.studies.runner import (
    Progress,
    _run_folder,
    _run_one,
    _sources_first,
    missing,
    run,
    store_in,
    train,
)
from nescio.studies.store import PROVENANCE

EPOCHS = 4


def numbers_in(folder):
    """Everything in the records of a folder but when and where they were made."""
    found = {}
    for path in store_in(folder).paths():
        content = json.loads(path.read_text())
        del content[PROVENANCE]
        found[path.name] = content
    return found


def start(folder, *last):
    command = [sys.executable, "-m", "tests.studies.killed", str(folder), str(EPOCHS), *last]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment())


def epochs_in(folder):
    path = _run_folder(folder, experiment(EPOCHS).plan) / "metrics.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def test_killed_and_started_again_beside_another_it_ends_with_the_same_numbers(tmp_path):
    """Two processes side by side go on where the killed one stopped; a third run, whole, says the same."""
    killed = start(tmp_path / "killed", "3")
    output = killed.communicate()[0].decode()
    assert killed.returncode == -signal.SIGKILL, output
    before = epochs_in(tmp_path / "killed")
    assert 2 <= len(before) < EPOCHS
    again = start(tmp_path / "killed")
    _run_one(experiment(EPOCHS), tmp_path / "killed")
    output = again.communicate(timeout=240)[0].decode()
    assert again.returncode == 0, output
    _run_one(experiment(EPOCHS), tmp_path / "whole")
    after = epochs_in(tmp_path / "killed")
    assert after[: len(before)] == before  # with their seconds: these epochs were not trained again
    assert len(after) == EPOCHS
    assert numbers_in(tmp_path / "whole") == numbers_in(tmp_path / "killed")
    assert len(numbers_in(tmp_path / "whole")) == 4


def test_every_measurement_is_there(folder):
    for each in DIGITS.experiments():
        assert missing(each, folder) == []
    assert [each.name for each in one("edl").measurements] == list(MEASURED)


def test_a_second_call_computes_nothing(folder, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in store_in(folder).paths()}
    monkeypatch.setattr(runner, "train", None)
    said = []
    run(DIGITS.experiments(), folder, progress=Progress(said.append))
    assert {path: path.stat().st_mtime_ns for path in store_in(folder).paths()} == before
    assert said == []


@pytest.fixture
def copied(folder, tmp_path):
    """A copy of the whole folder, to be changed."""
    shutil.copytree(folder, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def _no_training(monkeypatch):
    monkeypatch.setattr("nescio.inference.model.TrainedModel.train", None)


@pytest.mark.usefixtures("_no_training")
def test_what_is_missing_is_computed_and_the_same(copied):
    before = numbers_in(copied)
    edl = one("edl")
    for measurement in edl.measuring(("transfer", "rotation")).measurements:
        store_in(copied).path(edl.plan, measurement).unlink()
    said = []
    _run_one(edl, copied, Progress(said.append))
    assert said == ["digits/edl-0: rotation, transfer measured"]
    assert numbers_in(copied) == before


@pytest.mark.usefixtures("_no_training")
def test_a_measurement_with_other_settings_lies_beside_the_first(copied):
    before = numbers_in(copied)
    other = replace(DIGITS, evaluation=replace(DIGITS.evaluation, pgd=(0.0, 0.2)))
    edl = one("edl", comparison=other)
    assert [each.name for each in missing(edl, copied)] == ["pgd"]
    _run_one(edl, copied)
    after = numbers_in(copied)
    assert {name: after[name] for name in before} == before
    (new,) = set(after) - set(before)
    assert after[new]["numbers"]["curve"]["epsilon"] == [0.0, 0.2]


def as_of_another_network(folder, experiment, names, weights="other"):
    """Make these records those of a network that is gone; weights None: of the time before digests."""
    for measurement in experiment.measuring(names).measurements:
        path = store_in(folder).path(experiment.plan, measurement)
        content = json.loads(path.read_text())
        content[PROVENANCE]["training_seconds"] = 0.25
        if weights is None:
            del content[PROVENANCE]["weights"]
        else:
            content[PROVENANCE]["weights"] = weights
        path.write_text(json.dumps(content))


def provenance_of(folder, experiment, name):
    (measurement,) = experiment.measuring([name]).measurements
    return store_in(folder).read(experiment.plan, measurement).provenance


def test_a_record_names_the_weights_of_its_network(folder):
    edl = one("edl")
    digests = {provenance_of(folder, edl, name)["weights"] for name in MEASURED}
    assert len(digests) == 1
    (digest,) = digests
    assert len(digest) == 20
    model = train(edl.plan, folder)
    assert runner._network_of(model)["weights"] == digest
    assert provenance_of(folder, one("l2"), "known")["weights"] != digest
    with torch.no_grad():
        next(iter(model.module.parameters())).add_(1e-3)
    assert runner._network_of(model)["weights"] != digest


@pytest.mark.usefixtures("_no_training")
@pytest.mark.parametrize("weights", ["other", None])
def test_what_is_of_another_network_is_measured_again_with_what_is_missing(copied, weights):
    before = numbers_in(copied)
    edl = one("edl")
    (rotation,) = edl.measuring(["rotation"]).measurements
    store_in(copied).path(edl.plan, rotation).unlink()
    as_of_another_network(copied, edl, ["known", "training"], weights)
    said = []
    _run_one(edl, copied, Progress(said.append))
    assert said == [
        "digits/edl-0: training, known in the store of another network than the one at hand, measuring again",
        "digits/edl-0: training, known, rotation measured",
    ]
    assert numbers_in(copied) == before
    assert len({provenance_of(copied, edl, name)["weights"] for name in MEASURED}) == 1


@pytest.mark.usefixtures("_no_training")
def test_records_of_several_networks_are_made_one_though_none_is_missing(copied):
    edl = one("edl")
    as_of_another_network(copied, edl, ["fgsm"])
    assert missing(edl, copied) == list(edl.measurements)
    said = []
    _run_one(edl, copied, Progress(said.append))
    assert said[-1] == "digits/edl-0: fgsm measured"  # the others are of the network at hand
    assert missing(edl, copied) == []


def test_a_model_that_is_gone_is_trained_again_and_everything_measured_of_it(copied):
    l2 = one("l2")
    names = [each.name for each in l2.measurements]
    as_of_another_network(copied, l2, names)  # as if it had been trained elsewhere
    assert missing(l2, copied) == []  # they are of one network
    (known,) = l2.measuring(["known"]).measurements
    store_in(copied).path(l2.plan, known).unlink()
    (_run_folder(copied, l2.plan) / "model.safetensors").unlink()
    said = []
    _run_one(l2, copied, Progress(said.append))
    assert said[-1] == f"digits/l2-0: {', '.join(names)} measured"
    assert len({provenance_of(copied, l2, name)["weights"] for name in names}) == 1


def test_a_training_with_other_settings_has_a_folder_of_its_own(folder):
    longer = one("edl", comparison=with_epochs(3))
    assert _run_folder(folder, longer.plan) != _run_folder(folder, one("edl").plan)
    assert [each.name for each in missing(longer, folder)] == list(MEASURED)


def test_data_that_cannot_be_had_are_told_of_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "_run_one", None)
    other = replace(DIGITS, ood="moons")
    with pytest.raises(InputError, match="there is no data set 'moons'"):
        run(other.experiments(), tmp_path)
    known = [each.measuring(["known"]) for each in other.experiments()]
    with pytest.raises(TypeError, match="NoneType"):  # nobody asks about moons: the work, taken away, begins
        run(known, tmp_path)


def test_what_another_process_measured_while_we_waited_is_not_measured_again(copied, monkeypatch):
    edl = one("edl")
    (rotation,) = edl.measuring(["rotation"]).measurements
    path = store_in(copied).path(edl.plan, rotation)
    content = path.read_bytes()
    path.unlink()
    usual = runner.train

    def train_beside_another(*given):
        path.write_bytes(content)
        return usual(*given)

    monkeypatch.setattr(runner, "train", train_beside_another)
    said = []
    _run_one(edl, copied, Progress(said.append))
    assert said == []
    assert path.read_bytes() == content


def test_waiting_for_another_process_is_told(copied):
    plan = one("edl").plan
    held = FileLock(_run_folder(copied, plan) / "lock")
    held.acquire()
    said = []

    def waits(line):
        said.append(line)
        held.release()

    train(plan, copied, "digits/edl-0", Progress(waits))
    assert said == ["digits/edl-0: another process is at it; waiting"]


def stuck(**method):
    """One epoch of ReLU evidence with hardly any learning."""
    experiment = one("edl-printed").measuring(["training", "known"])
    training = {**experiment.plan.training, "epochs": 1, "batch_size": 512, "learning_rate": 1e-6}
    plan = replace(experiment.plan, training=training, method={**experiment.plan.method, **method})
    return replace(experiment, plan=plan)


def test_progress_is_told(tmp_path):
    said, epochs = [], []
    progress = Progress(said.append, lambda name, metrics: epochs.append((name, metrics["epoch"])))
    _run_one(stuck(), tmp_path, progress)
    assert said[0] == "digits/edl-printed-0: training, 1 epochs"
    assert said[-1] == "digits/edl-printed-0: training, known measured"
    assert epochs == [("digits/edl-printed-0", 1)]


def test_warnings_of_a_training_are_told_once(tmp_path, recwarn):
    said = []
    dead = stuck(output_bias=-50.0)
    _run_one(dead, tmp_path, Progress(said.append))
    assert sum("no evidence on any input" in line for line in said) == 1
    numbers = store_in(tmp_path).read(dead.plan, dead.measurements[1]).numbers
    assert numbers["evidence"]["dead"] == list(range(10))
    assert numbers["evidence"]["vacuous"] == 1
    assert numbers["scores"]["accuracy"] == 0
    assert numbers["scores"]["answered"] == 0
    assert numbers["scores"]["answered_accuracy"] is None
    assert not recwarn.list


def test_no_such_place(tmp_path):
    with pytest.raises(InputError, match="on must be one of here, ray, got 'moon'"):
        run([one("edl")], tmp_path, on="moon")


def test_ray_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"ray is not installed.*nescio\[cluster\]"):
        run([one("edl")], tmp_path, on="ray")


@pytest.mark.timeout(600)  # on a busy machine Ray takes its time to notice that a node is gone
def test_on_two_nodes_of_which_one_is_killed(folder, tmp_path):
    """The same numbers come out as in one process."""
    given = environment(RAY_DEDUP_LOGS="0", OMP_NUM_THREADS=str(torch.get_num_threads()))
    command = [sys.executable, "-m", "tests.studies.two_nodes", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=given, timeout=580, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["alive"] == 1
    assert said["models_when_killed"][0] < 4
    ours = numbers_in(tmp_path)
    here = numbers_in(folder)
    assert ours == {name: here[name] for name in ours}
    assert len(ours) == sum(len(each.measurements) for each in experiments())


class Ray:
    """Ray's calls, in this process: tasks give what is in a folder, and that of one experiment fails."""

    def __init__(self, folder, failing):
        self.folder, self.failing, self.tasks = folder, failing, {}

    def is_initialized(self):
        return True

    def nodes(self):
        return [{"Alive": True, "Resources": {"CPU": 1.0}}]

    def remote(self, **_):
        return lambda function: self

    def options(self, name):
        def remote(experiment, *_):
            self.tasks[name] = experiment
            return name

        return SimpleNamespace(remote=remote)

    def wait(self, tasks, num_returns):
        return tasks[:num_returns], tasks[num_returns:]

    def get(self, task):
        if task == self.failing:
            raise TrainingError(f"{task} went wrong")
        return runner._remote(self.tasks[task], str(self.folder), {}, torch.get_num_threads())


def test_one_failure_does_not_lose_the_results_of_the_others(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", Ray(folder, "digits/l2-0"))
    said = []
    with pytest.raises(TrainingError, match="digits/l2-0 went wrong"):
        run([one("l2"), one("l2", 1)], tmp_path, "ray", Progress(said.append))
    assert said == ["digits/l2-0: failed, 1 left", "digits/l2-1: done, 0 left"]
    assert missing(one("l2", 1), tmp_path) == []
    assert missing(one("l2"), tmp_path) == list(one("l2").measurements)


def test_sources_come_first_and_what_is_done_is_left_out(folder, tmp_path):
    ordered = _sources_first([one("edl"), one("dropout"), one("l2"), one("l2", 1)], tmp_path)
    names = [each.name for each in ordered]
    assert names == ["digits/l2-0", "digits/edl-0", "digits/dropout-0", "digits/l2-1"]
    assert ordered[0].measurements == one("l2").measurements
    alone = _sources_first([one("edl", 1)], tmp_path)
    assert [(each.name, bool(each.measurements)) for each in alone] == [
        ("digits/source of edl-1", False),
        ("digits/edl-1", True),
    ]
    assert alone[0].plan == one("l2", 1).plan
    assert _sources_first([one("edl"), one("l2")], folder) == []


def test_a_source_whose_model_is_there_is_not_trained_again(copied):
    edl = one("edl")
    (transfer,) = edl.measuring(["transfer"]).measurements
    store_in(copied).path(edl.plan, transfer).unlink()
    assert [each.name for each in _sources_first([edl], copied)] == ["digits/edl-0"]


def test_two_experiments_with_one_plan_are_both_run(tmp_path):
    """Also where their network is a source of a third."""
    l2 = one("l2")
    ordered = _sources_first([one("edl"), replace(l2, arm="twin"), l2], tmp_path)
    assert sorted(each.name for each in ordered) == ["digits/edl-0", "digits/l2-0", "digits/twin-0"]
    assert ordered[0].plan == l2.plan


@pytest.mark.usefixtures("_no_training")
def test_a_worker_replaces_the_records_of_another_network(copied, tmp_path):
    edl = one("edl").measuring(["known", "rotation"])
    (rotation,) = edl.measuring(["rotation"]).measurements
    store_in(copied).path(edl.plan, rotation).unlink()
    as_of_another_network(copied, edl, ["known"])
    known = runner._models(copied, [edl.plan]) | runner._record_files(copied, edl)
    files = runner._remote(edl, str(tmp_path / "worker"), known, torch.get_num_threads())
    replaced = runner._write_files(copied, files, replace=True)
    assert [name.split("-")[0] for name in replaced] == ["known"]
    assert provenance_of(copied, edl, "known")["weights"] == provenance_of(copied, edl, "rotation")["weights"]
    assert missing(edl, copied) == []
    assert runner._write_files(copied, files, replace=True) == []


def test_a_driver_says_what_was_replaced(folder, copied, monkeypatch):
    edl = one("edl")
    as_of_another_network(copied, edl, ["known"])
    monkeypatch.setitem(sys.modules, "ray", Ray(folder, ""))
    said = []
    run([edl], copied, "ray", Progress(said.append))
    assert said[0].startswith("digits/edl-0: of another network, replaced: known-")
    assert said[1] == "digits/edl-0: done, 0 left"
    assert missing(edl, copied) == []


@pytest.mark.usefixtures("_no_training")
def test_a_worker_that_shares_no_folder(folder, tmp_path):
    """It gets the models, measures, and gives its model and its records back."""
    edl = one("edl").measuring(["transfer"])
    known = runner._models(folder, [edl.plan, one("l2").plan])
    assert len(known) == 2
    files = runner._remote(edl, str(tmp_path / "worker"), known, torch.get_num_threads())
    assert len(files) == 2
    runner._write_files(tmp_path / "driver", files)
    assert missing(edl, tmp_path / "driver") == []
    (name,) = numbers_in(tmp_path / "driver")
    assert numbers_in(tmp_path / "driver")[name] == numbers_in(folder)[name]
    assert (_run_folder(tmp_path / "driver", edl.plan) / "model.safetensors").exists()


@pytest.mark.usefixtures("_no_training")
def test_a_worker_trains_a_source_without_measuring_it(tmp_path, folder):
    source = one("edl").measuring(["transfer"]).measurements[0].source
    only_training = replace(one("l2"), plan=source, measurements=())
    known = runner._models(folder, [source])
    files = runner._remote(only_training, str(tmp_path), known, torch.get_num_threads())
    assert list(files) == [f"checkpoints/{source.digest}/model.safetensors"]
    assert store_in(tmp_path).paths() == []
