"""Each feature that needs an extra says which, in one line, in an interpreter that has none of them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.try_wheel import AFTER, BEFORE, MATERIAL, NEEDS, ROOT, readme_lines

import nescio

# The packages of all extras that a feature may ask for, but for those that torch and typer bring.
OPTIONAL = [
    "huggingface_hub",
    "lightning",
    "matplotlib",
    "mlflow",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "prometheus_client",
    "pyarrow",
    "python_multipart",
    "pytorch_lightning",
    "ray",
    "starlette",
    "tensorboard",
    "tokenizers",
    "torchmetrics",
    "transformers",
    "uvicorn",
    "httptools",
    "uvloop",
    "wandb",
]

WITHOUT = """
import json, sys
sys.modules |= dict.fromkeys(json.loads(sys.argv[1]))  # an import of None fails as one of what is not there
"""
TRY_ALL = """
import contextlib, io
from nescio.cli.app import main
said = {}
for feature, (extra, words) in json.loads(sys.argv[2]).items():
    errors = io.StringIO()
    code = 0
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        try:
            if words[0] == "-c":
                exec(words[1])
            else:
                sys.argv = ["nescio", *words]
                main()
        except SystemExit as end:
            code = end.code
        except Exception as error:
            code = 1
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
    said[feature] = [code, errors.getvalue()]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    command = [sys.executable, "-c", WITHOUT + MATERIAL + TRY_ALL, json.dumps(OPTIONAL), json.dumps(NEEDS)]
    source = Path(nescio.__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("feature", NEEDS)
def test_a_feature_names_its_extra_in_one_line(said, feature):
    extra, _ = NEEDS[feature]
    code, errors = said[feature]
    lines = [line for line in errors.splitlines() if line.strip()]
    assert code != 0
    assert re.search(rf"\w+ is not installed; install it with: pip install 'nescio\[{extra}\]'$", lines[-1])
    assert "Traceback" not in errors


def test_every_extra_for_users_is_tried():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = text[text.index("[project.optional-dependencies]") : text.index("[project.scripts]")]
    extras = set(re.findall(r"^(\w+) = \[", block, flags=re.MULTILINE))
    assert extras - {"dev", "docs", "all"} == {extra for extra, _ in NEEDS.values()}


def test_the_lines_of_the_readme_run_as_they_stand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = readme_lines(Path(ROOT, "README.md").read_text(encoding="utf-8"))
    assert len(lines.strip().splitlines()) <= 6
    names = {}
    exec(BEFORE + lines + AFTER, names)  # it asserts by itself
    assert names["opinion"].num_classes == 3


def test_a_readme_without_code_is_said():
    with pytest.raises(SystemExit, match="the README has no block of Python"):
        readme_lines("# nothing")
