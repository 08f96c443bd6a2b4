"""Print the table of docs/methods.md from the results of the paper's MNIST runs and the measured speeds.

python tools/methods_table.py

The results come from `nescio reproduce --preset paper --sets mnist`, the ratios from
`python -m benchmarks.methods`.
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAPER = {"l2": 99.4, "dropout": 99.5, "ensemble": 99.3, "ffgu": 99.1, "fflu": 99.1, "mnfg": 99.3, "edl": 99.3}
HEADER = (
    "method", "accuracy", "paper", "NLL", "ECE", "entropy on notMNIST: mean", "median", "AUROC", "training",
    "prediction",
)  # fmt: skip


def row(name: str, speed: dict[str, float]) -> list[str]:
    """One method's cells; a training's cost is its steps' times the epochs, against L2's."""
    parts = {key: read(key) for key in (name, "l2")}
    known, strangers = (parts[name]["parts"][key]["numbers"]["scores"] for key in ("known", "strangers"))
    epochs = {key: part["trained"]["training"]["epochs"] for key, part in parts.items()}
    cost = speed[f"{name} step"] * epochs[name] / epochs["l2"]
    return [
        f"`{name}`",
        f"{100 * known['accuracy']:.2f}%",
        f"{PAPER[name]}%",
        f"{known['nll']:.3f}",
        f"{known['ece']:.4f}",
        f"{100 * strangers['unknown_mean_entropy']:.0f}%",
        f"{100 * strangers['unknown_median_entropy']:.0f}%",
        f"{strangers['entropy_auroc']:.3f}",
        f"{cost:.1f}",
        f"{speed[f'{name} prediction']:.1f}",
    ]


def read(name: str) -> Any:
    """The result of a method's first seed."""
    path = ROOT / "results" / "paper" / "results" / "mnist" / f"{name}-0.json"
    return json.loads(path.read_text())


def main() -> None:
    """As Markdown."""
    speed = json.loads((ROOT / "benchmarks" / "results" / "methods.json").read_text())["ratios"]
    for cells in (HEADER, ["---"] * len(HEADER), *(row(name, speed) for name in PAPER)):
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
