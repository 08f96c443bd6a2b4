"""Every piece of code on the pages is run, and every command is one that exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from PIL import Image
from tools.docs import outside, tutorials
from torch import nn

import nescio
from nescio.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
ROOT = DOCS.parent
PAGES = sorted(path for path in DOCS.rglob("*.md") if "decisions" not in path.parts)
PAGES += sorted(DOCS.glob("tutorials/*.py"))
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", flags=re.DOTALL | re.MULTILINE)
# Where code is run by a test of its own, which looks at what it gives: the page, the heading, the test.
ELSEWHERE = (
    ("guide.md", "A trained softmax network", "tests/test_guide.py"),
    ("guide.md", "A network of your own", "tests/test_guide.py"),
    ("guide.md", "Your own data in Python", "tests/test_guide.py"),
    ("guide.md", "Tables and texts", "tests/test_guide.py"),
    ("encoders.md", "", "tests/test_encoders_page.py"),
    ("guarantees.md", "", "tests/test_guarantees_page.py"),
    ("integrations.md", "", "tests/test_integrations_page.py"),
)
COMMAND = typer.main.get_command(app)


def text_of(path):
    """A page, or what a tutorial says in words."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    lines = [line.removeprefix("#").removeprefix(" ") for line in text.splitlines() if line.startswith("#")]
    return "\n".join(lines)


def without_what_is_run_elsewhere(path, text):
    for page, heading, test in ELSEWHERE:
        if page != name_of(path):
            continue
        tested = (ROOT / test).read_text(encoding="utf-8")
        assert f'"{page}"' in tested
        assert heading in tested
        if not heading:
            return ""
        section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        text = text.replace(section, "")
    return text


def blocks(path, language):
    found = []
    text = text_of(path)
    if language == "python":
        text = without_what_is_run_elsewhere(path, text)
    for indent, of, code in BLOCK.findall(text):
        if of == language:
            found.append("\n".join(line.removeprefix(indent) for line in code.splitlines()))
    return found


def name_of(path):
    return path.relative_to(DOCS).as_posix()


def usual_names():
    """What a reader has already: a network, inputs, labels."""
    torch.manual_seed(0)
    x, y = torch.randn(800, 4), torch.arange(800) % 3
    x[:, 0] += 12 * y
    x, held_out = x.split(400)
    y, y_held_out = y.split(400)
    return {
        "nescio": nescio,
        "torch": torch,
        "np": np,
        "nn": nn,
        "network": nn.Linear(4, 3),
        "num_classes": 3,
        "x": x,
        "y": y,
        "X": x.numpy(),
        "X_new": x.numpy(),
        "X_held_out": held_out.numpy(),
        "y_held_out": y_held_out.numpy(),
        "epoch": 1,
        "step": 0,
        "steps": 1,
    }


def with_code(language):
    return [path for path in PAGES if blocks(path, language)]


@pytest.mark.parametrize("path", with_code("python"), ids=name_of)
def test_code(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng():
        names = usual_names()
        if path.name == "service.md":
            table = nescio.data.Table(names["x"], names["y"], ("a", "b", "c"), "rows")
            settings = nescio.TrainingSettings(epochs=1, batch_size=8)
            (tmp_path / "run").mkdir()
            nescio.TrainedModel.train(table, settings=settings).save(tmp_path / "run" / "model.safetensors")
        if path.name == "data.md":
            monkeypatch.setattr(nescio.data, "load", lambda name, split="train": (name, split))
            for kind, colour in (("cat", "black"), ("dog", "white")):
                (tmp_path / "photos" / kind).mkdir(parents=True)
                Image.new("RGB", (40, 40), colour).save(tmp_path / "photos" / kind / "1.png")
        for code in blocks(path, "python"):
            exec(compile(code, name_of(path), "exec"), names)
        if path.name == "data.md":
            assert names["mine"].classes == ("cat", "dog")


def test_what_the_questions_say_of_u():
    (code, *_) = blocks(DOCS / "faq.md", "python")
    names = usual_names()
    exec(compile(code, "faq.md", "exec"), names)
    said = re.findall(r"# ([\d.]+), ([\d.]+), ([\d.]+):", code)
    opinion = names["opinion"]
    for numbers, measured in zip(said, (opinion.uncertainty, opinion.dissonance()), strict=True):
        assert [float(number) for number in numbers] == pytest.approx(measured.tolist(), abs=0.005)


def commands(path):
    found = []
    texts = []
    for language in ("bash", ""):
        texts += blocks(path, language)
    for line in "\n".join(texts).replace("\\\n", " ").splitlines():
        if line.strip().startswith("nescio ") and "..." not in line.partition("#")[0]:
            found.append(line.strip())
    return found


@pytest.mark.parametrize("path", [path for path in PAGES if commands(path)], ids=name_of)
def test_commands(path, tmp_path, monkeypatch):
    """They are parsed by the command line itself, which refuses what it does not know; nothing is run."""
    monkeypatch.chdir(tmp_path)
    for line in commands(path):
        words = shlex.split(line, comments=True)[1:]
        command = COMMAND
        while words and hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        context = command.make_context(line, words)
        assert not context.args, line


# Besides nescio's: what sets up an environment, and requests, which tests/serve/test_page_kinds.py sends.
OTHER_COMMANDS = {"pip", "uv", "python", "make", "curl"}


def all_pages():
    found = [*PAGES, *DOCS.glob("decisions/*.md")]
    return found + [ROOT / name for name in outside.outside_files() if name.endswith(".md")]


@pytest.mark.parametrize("path", all_pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_block_escapes(path):
    """Blocks are of languages that the tests above know, and Python stands where it is run."""
    text = text_of(path)
    found = BLOCK.findall(text)
    fences = re.findall(r"^ *```", text, flags=re.MULTILINE)
    assert len(fences) == 2 * len(found)
    languages = {language for _, language, _ in found}
    assert languages <= {"", "bash", "python", "toml", "json"}
    if "python" in languages:
        assert path in PAGES or path.name == "CONTRIBUTING.md"  # which tests/test_contributing.py runs
    for _, language, code in found:
        if language == "bash":
            for line in code.replace("\\\n", " ").split("\n"):
                words = shlex.split(line, comments=True)
                assert not words or words[0] in OTHER_COMMANDS | {"nescio"}, line


@pytest.mark.parametrize("path", all_pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere_in_the_repository_too(path):
    """The pages are read there as well, not on the site alone."""
    for _, _, target, _ in outside.LINK.findall(text_of(path)):
        if "://" not in target and not target.startswith("mailto:"):
            assert (path.parent / target).exists(), target


def test_what_the_navigation_names_is_there_or_made_by_the_build():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    made = {f"tutorials/{name}.md" for name in tutorials.names()} | set(outside.outside_files())
    for name in re.findall(r"[\w/]+\.md", text.partition("\nnav:")[2]):
        assert (DOCS / name).exists() or name in made, name
