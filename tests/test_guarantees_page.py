"""The example of docs/guarantees.md, run as it stands: what is promised is kept on new digits."""

import re
from pathlib import Path

import pytest
import torch

import nescio
from nescio.posthoc.conformal import fewest_samples

PAGE = (Path(__file__).parents[1] / "docs" / "guarantees.md").read_text()


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names = {}
    folder = tmp_path_factory.mktemp("guarantees")
    with pytest.MonkeyPatch.context() as patch, torch.random.fork_rng():
        patch.chdir(folder)
        torch.manual_seed(0)
        exec(compile(code, "guarantees.md", "exec"), names)
    return names | {"folder": folder}


def test_the_promises_are_kept_on_new_digits(example):
    accepted, wrong = example["accepted"], example["wrong"]
    assert accepted.double().mean() > 0.5
    assert wrong[accepted].double().mean() <= 0.02 < wrong.double().mean()
    covered, labels = example["covered"], example["test"].labels
    assert covered.double().mean() >= 0.97
    least = min(float(covered[labels == digit].double().mean()) for digit in range(10))
    assert least >= 0.9


def test_both_are_in_the_file(example):
    again = nescio.TrainedModel.load(example["folder"] / "digits.safetensors")
    assert (again.rule, again.sets) == (example["rule"], example["sets"])
    assert again.seen.are_seen(example["rest"].images)
    assert not again.seen.are_seen(example["held_out"].images)


def test_the_numbers_of_samples_are_right():
    assert "for sets 19 for 95%, 99 for 99%" in PAGE
    assert (fewest_samples(0.95), fewest_samples(0.99)) == (19, 99)
    known = torch.full((1000, 2), 0.5)
    for size, said in ((1000, "with 1,000 samples 93.6% to 96.3%"), (100, "100 90.1% to 98.4%")):
        sets = nescio.ConformalSets.fit(known[:size], torch.zeros(size, dtype=torch.long), 0.95)
        low, high = sets.coverage_interval()
        assert said.endswith(f"{100 * low:.1f}% to {100 * high:.1f}%")
        assert said in " ".join(PAGE.split())
