import json
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tests.studies.sensoy2018.small import one
from tests.studies.sensoy2018.two_nodes import experiments

from nescio.errors import InputError, MissingExtraError, TrainingError
from nescio.studies.sensoy2018 import grid
from nescio.studies.sensoy2018.engine import Told, run_folder
from nescio.studies.sensoy2018.grid import run_grid
from nescio.studies.sensoy2018.results import read_result, result_path, write_result


@pytest.mark.timeout(600)  # on a busy machine Ray takes its time to notice that a node is gone
def test_on_two_nodes_of_which_one_is_killed(folder, tmp_path):
    """The same numbers come out as in one process."""
    environment = {**os.environ, "RAY_DEDUP_LOGS": "0", "OMP_NUM_THREADS": str(torch.get_num_threads())}
    command = [sys.executable, "-m", "tests.studies.sensoy2018.two_nodes", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=580, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["alive"] == 1
    assert said["models_when_killed"][0] < 4
    assert said["results"] == 4
    for each in experiments():
        ours, here = (read_result(result_path(where, each)) for where in (tmp_path, folder))
        assert ours.trained == here.trained
        for part in ("training", *each.parts):
            assert ours.parts[part] == here.parts[part], (each.name, part)


def test_here(folder):
    (result,) = run_grid([one("edl")], folder)
    assert result == read_result(result_path(folder, one("edl")))


def test_no_such_place(tmp_path):
    with pytest.raises(InputError, match="on must be one of here, ray, got 'moon'"):
        run_grid([one("edl")], tmp_path, on="moon")


def test_ray_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"ray is not installed.*nescio\[cluster\]"):
        run_grid([one("edl")], tmp_path, on="ray")


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
        return grid._kept(self.folder, self.tasks[task])


def test_one_failure_does_not_lose_the_results_of_the_others(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", Ray(folder, "digits/l2-0"))
    said = []
    with pytest.raises(TrainingError, match="digits/l2-0 went wrong"):
        run_grid([one("l2"), one("l2", 1)], tmp_path, "ray", Told(said.append))
    assert said == ["digits/l2-0: failed, 1 left", "digits/l2-1: done, 0 left"]
    assert [result_path(tmp_path, one("l2", seed)).exists() for seed in (0, 1)] == [False, True]


def test_sources_come_first_and_what_is_done_is_left_out(folder, tmp_path):
    ordered = grid._sources_first([one("edl"), one("dropout"), one("l2"), one("l2", 1)], tmp_path)
    assert [each.name for each in ordered] == [
        "digits/l2-0",
        "digits/edl-0",
        "digits/dropout-0",
        "digits/l2-1",
    ]
    assert ordered[0].parts == one("l2").parts
    alone = grid._sources_first([one("edl", 1)], tmp_path)
    assert [(each.name, bool(each.parts)) for each in alone] == [
        ("digits/l2-1", False),
        ("digits/edl-1", True),
    ]
    assert grid._sources_first([one("edl"), one("l2")], folder) == []


def test_a_worker_that_shares_no_folder(folder, tmp_path):
    """It gets what there is, does the rest, and gives all back."""
    edl, l2 = one("edl"), one("l2")
    model = f"checkpoints/{l2.name}/model.safetensors"
    known = {edl.name: grid._kept(folder, edl), l2.name: {}}
    content = json.loads(known[edl.name][f"results/{edl.name}.json"])
    before = content["parts"].pop("transfer")
    known[edl.name][f"results/{edl.name}.json"] = json.dumps(content).encode()
    given = {model: (folder / model).read_bytes()}
    files = grid._remote(edl, str(tmp_path / "worker"), known, given, torch.get_num_threads())
    assert set(files) == {f"results/{edl.name}.json"} | {
        f"checkpoints/{edl.name}/{name}" for name in ("model.safetensors", "metrics.jsonl")
    }
    assert json.loads(files[f"results/{edl.name}.json"])["parts"]["transfer"] == before
    grid._keep(tmp_path / "driver", edl, files)
    assert read_result(result_path(tmp_path / "driver", edl)).parts["transfer"] == before
    assert (run_folder(tmp_path / "driver", edl) / "model.safetensors").exists()


def test_parts_that_a_worker_does_not_have_stay(folder, tmp_path):
    edl = one("edl")
    grid._keep(tmp_path, edl, grid._kept(folder, edl))
    path = result_path(tmp_path, edl)
    whole = read_result(path)
    theirs = replace(
        whole, parts={"training": whole.parts["training"], "known": {"numbers": 1, "settings": 2}}
    )
    write_result(tmp_path / "theirs", theirs)
    grid._keep(tmp_path, edl, {f"results/{edl.name}.json": (tmp_path / "theirs").read_bytes()})
    assert read_result(path).parts == {**whole.parts, "known": {"numbers": 1, "settings": 2}}


def test_a_worker_trains_a_source_without_measuring_it(tmp_path, folder):
    source = one("edl").source
    known = {source.name: {k: v for k, v in grid._kept(folder, source).items() if "results" not in k}}
    files = grid._remote(source, str(tmp_path), known, None, torch.get_num_threads())
    assert f"checkpoints/{source.name}/model.safetensors" in files
    assert not result_path(tmp_path, source).exists()
