"""Install a wheel with no extra into an empty environment, and do there what the README shows.

python tools/try_wheel.py dist/nescio-0.2.0-py3-none-any.whl [PYTHON ...]

The README's lines run as they stand there; each feature that needs an extra must say which, in one line. The
environment is made by the interpreter that runs this, or by each that is named. Versions are those of
constraints.txt.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What the README's lines are about: a network of the reader's own, and rows with their classes.
BEFORE = """
import torch
torch.manual_seed(0)
num_classes = 3
network = torch.nn.Linear(4, num_classes)
x = torch.randn(8, 4)
labels = torch.arange(8) % num_classes
epoch = 0
X = torch.randn(60, 4).numpy()
y = ["cat", "dog", "fox"] * 20
"""
AFTER = """
assert opinion.belief.shape == (8, 3) and opinion.uncertainty.shape == (8,)
print(opinion[0])
"""
# Files and a model that the features below are tried on, in the current folder.
MATERIAL = """
import torch
from pathlib import Path
from nescio.inference.model import untrained_model
untrained_model(torch.eye(3), ("a", "b")).save("model.safetensors")
Path("rows.csv").write_text("x,y,z,label\\n" + "1,2,3,a\\n4,5,6,b\\n" * 30)
Path("texts.csv").write_text("question,intent\\n" + "where is it,parcel\\nhello you there,hello\\n" * 30)
Path("rows.parquet").write_bytes(b"PAR1")
Path("texts").mkdir()
"""
# Commands and code that need an extra, and the extra that the error must name.
NEEDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "figures": ("demo", ("-c", "import nescio; nescio.plots.panel()")),
    "the demo": ("demo", ("demo", "--out", "demo")),
    "a model card": ("demo", ("evaluate", "model.safetensors", "--data", "rows.csv", "--card", "card")),
    "the paper": ("demo", ("reproduce", "--out", "paper")),
    "a study": ("demo", ("study", "successors", "--out", "study")),
    "the service": ("serve", ("serve",)),
    "texts": ("text", ("train", "texts.csv", "--text", "question", "--label", "intent", "--out", "run")),
    "transformers": (
        "hf",
        ("train", "texts.csv", "--text", "question", "--encoder", "hf:texts", "--out", "run"),
    ),
    "the Trainer": ("hf", ("-c", "import nescio.integrations.transformers")),
    "parquet tables": ("tables", ("train", "rows.parquet", "--out", "run")),
    "parquet answers": ("tables", ("predict", "model.safetensors", "rows.csv", "--out", "answers.parquet")),
    "Ray": ("cluster", ("predict", "model.safetensors", "rows.csv", "--out", "a.csv", "--on", "ray")),
    "ONNX": ("onnx", ("export", "model.safetensors", "--onnx", "model.onnx")),
    "the hub": ("hub", ("-c", "from nescio.integrations import hub; hub.from_pretrained('owner/model')")),
    "streaming metrics": ("metrics", ("-c", "import nescio.metrics.streaming")),
    "Lightning": ("lightning", ("-c", "import nescio.integrations.lightning")),
    "TensorBoard": ("tensorboard", ("train", "rows.csv", "--out", "tensorboard", "--log", "tensorboard")),
    "MLflow": ("mlflow", ("train", "rows.csv", "--out", "mlflow", "--log", "mlflow")),
    "Weights & Biases": ("wandb", ("train", "rows.csv", "--out", "wandb", "--log", "wandb")),
}


def main(wheel: Path, pythons: list[str]) -> None:
    """Try the wheel with each interpreter."""
    for python in pythons:
        with tempfile.TemporaryDirectory() as folder:
            environment = Path(folder) / "environment"
            subprocess.run([python, "-m", "venv", environment], check=True)
            constraints = ["--constraint", str(ROOT / "constraints.txt")]
            install = ["-m", "pip", "install", "--quiet", "--no-compile", *constraints, str(wheel.resolve())]
            subprocess.run([environment / "bin" / "python", *install], check=True)
            try_environment(environment, Path(folder))


def try_environment(environment: Path, folder: Path) -> None:
    """The README's lines, and every feature that needs an extra, in an environment without any."""
    python = str(environment / "bin" / "python")
    lines = readme_lines((ROOT / "README.md").read_text(encoding="utf-8"))
    done = subprocess.run([python, "-c", BEFORE + lines + AFTER], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"the README's lines fail:\n{done.stderr}")
    print(f"the README's lines: {done.stdout.strip()}")
    subprocess.run([python, "-c", MATERIAL], cwd=folder, check=True)
    for feature, (extra, words) in NEEDS.items():
        print(f"{feature}: {said_without(environment, folder, extra, words)}")


def readme_lines(readme: str) -> str:
    """The first block of Python of the README."""
    found = re.search(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    if found is None:
        sys.exit("the README has no block of Python")
    return found[1]


def said_without(environment: Path, folder: Path, extra: str, words: tuple[str, ...]) -> str:
    """What is said where an extra is missing; anything but one line that names it ends the program."""
    program = "nescio"
    if words[0] == "-c":
        program = "python"
    command = [str(environment / "bin" / program), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    is_plain = program == "python" or "Traceback" not in done.stderr
    if done.returncode == 0 or f"nescio[{extra}]" not in last or not is_plain:
        sys.exit(
            f"{' '.join(words)}: must name nescio[{extra}] in one line, got:\n{done.stderr or done.stdout}"
        )
    return last


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("pythons", nargs="*", default=[sys.executable], metavar="PYTHON")
    given = parser.parse_args()
    main(given.wheel, given.pythons)
