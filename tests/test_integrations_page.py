"""The page on integrations: the blocks of each section run as one program."""

import re
from pathlib import Path

import pytest
import torch

from nescio import metrics
from nescio.training.loggers import LOGGERS

PAGE = (Path(__file__).parents[1] / "docs" / "integrations.md").read_text()


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def section(heading):
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def names_of(heading):
    code = "\n".join(re.findall(r"```python\n(.*?)```", section(heading), flags=re.DOTALL))
    names = {}
    exec(compile(code, f"integrations.md, {heading}", "exec"), names)
    return names


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_the_trainer():
    names = names_of("The Trainer of transformers")
    assert metrics.accuracy(names["opinion"], names["labels"][160:]) > 0.6
    assert names["possible"].shape == (40, 2)
    assert names["answers"].dtype == torch.bool
    assert names["answer"].p_values.shape == (40,)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_lightning():
    names = names_of("Lightning")
    logged = names["trainer"].callback_metrics
    with torch.no_grad():
        opinion = names["module"].opinion(names["inputs"][200:])
    assert float(logged["val_accuracy"]) == pytest.approx(metrics.accuracy(opinion, names["labels"][200:]))
    for name in re.findall(r"`(val_\w+)`", section("Lightning")):
        assert name in logged


def test_torchmetrics():
    names = names_of("torchmetrics")
    assert float(names["detection"].compute()["auroc"]) > 0.9
    assert len(names["figures"].compute()) == 3


def test_the_hub(tmp_path):
    names = names_of("The Hugging Face hub")
    images = names["test"].images[:20]
    assert torch.equal(names["again"].predict(images).evidence, names["model"].predict(images).evidence)
    assert "accuracy" in (tmp_path / "digits-model" / "README.md").read_text()


def test_every_logger_is_named():
    named = re.findall(r"^\| `(\w+)` \|", section("Loggers"), flags=re.MULTILINE)
    assert sorted(named) == sorted(LOGGERS)
