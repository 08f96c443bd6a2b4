import pytest
from tests.studies.sensoy2018.made import EMPTY, result, results_of

from nescio.studies._estimates import estimate, text_of
from nescio.studies.results import Result
from nescio.studies.sensoy2018 import _table1 as table1
from nescio.studies.sensoy2018._arms import COMPARED

TRAINING = {
    "held_out": 1250,
    "method": {"name": "ffgu", "initial_sigma": 1e-4},
    "encoder": {
        "kind": "lenet",
        "in_channels": 3,
        "height": 32,
        "width": 32,
        "num_classes": 5,
        "filters": [192, 192],
        "hidden": 1000,
    },
    "training": {"epochs": 10, "batch_size": 128},
}


@pytest.mark.usefixtures("_small")
def test_table1(results):
    (table,) = table1.tables(results)
    assert table.name == "table1-mnist"
    assert "digits" in table.title
    assert table.header[-1] == "the paper, MNIST"
    assert len(table.rows) == 4  # the arms of the comparison that stand in the table
    assert all(len(row) == len(table.header) for row in table.rows)
    rows = {row[0]: row for row in table.rows}
    values = results.values("digits", "edl", "known", "scores", "accuracy")
    text = text_of(estimate(values, is_share=True, images=200), 2, 100)
    assert rows["EDL"][1:] == ("3", text, text, "the same", "all", "99.3")
    single = results.values("digits", "l2", "known", "scores", "accuracy")
    assert rows["L2"][2] == text_of(estimate(single, is_share=True, images=200), 2, 100)


def test_three_ways_to_count():
    scores = {"accuracy": 0.95, "raw_accuracy": 0.97, "answered_accuracy": 0.9896, "answered": 0.96}
    made = results_of([result("edl-printed", known={"images": 10_000, "scores": scores})])
    row = next(row for row in table1.tables(made)[0].rows if row[0] == "EDL (as printed)")
    assert row[2] == "95.00 [94.56, 95.41]"
    assert row[3] == "97.00 [96.65, 97.32]"
    assert row[4] == text_of(estimate([0.9896], is_share=True, images=9600), 2, 100)
    assert row[5] == "96.00 [95.60, 96.37]"


def test_the_published_numbers_are_those_of_the_paper():
    mnist, cifar5 = table1.tables(EMPTY)
    printed = {
        "L2": ("99.4", "76"),
        "Dropout": ("99.5", "84"),
        "Deep Ensemble": ("99.3", "79"),
        "FFGU": ("99.1", "78"),
        "FFLU": ("99.1", "77"),
        "MNFG": ("99.3", "84"),
        "EDL": ("99.3", "83"),
        "EDL (as printed)": ("99.3", "83"),
    }
    ours = {row[0]: row[-1] for row in mnist.rows}
    theirs = {row[0]: row[-1] for row in cifar5.rows}
    for name, cells in printed.items():
        assert (ours[name], theirs[name]) == cells
    assert ours["EDL (author's notebook)"] == "98.8 (notebook)"
    assert set(theirs) == set(printed)
    assert len(mnist.rows) == len(COMPARED)
    assert mnist.rows[0][1:6] == ("0", "-", "-", "-", "-")


def test_nearly_deterministic_networks_are_said_to_be_so():
    ood = {"scores": {"ood_mean_entropy": 0.43}}
    made = results_of(
        [Result("cifar5", "ffgu", 0, {"ood": ood}, training=TRAINING), result("l2", "cifar5", ood=ood)]
    )
    said = table1.nearly_deterministic(made)
    assert said.startswith(" FFGU on CIFAR5: at full weight one nat for each weight is 242 nats an image")
    assert "at most 1.6" in said
    assert "sigma of 0.0001, which 1860 steps" in said
    assert said.endswith(
        "and the doubt of FFGU (43%) is that of a softmax network rather than of many (mean entropy on the "
        "unseen classes: L2 43%)."
    )
    assert said.count(". ") == 1  # two sentences
    assert said in table1.tables(made)[1].caption
    assert said not in table1.tables(made)[0].caption


def entropies_on_cifar5(**values):
    made = []
    for arm, value in values.items():
        ood = {"scores": {"ood_mean_entropy": value}}
        made.append(Result("cifar5", arm, 0, {"ood": ood}, training=TRAINING))
    return results_of(made)


def test_only_those_that_doubt_as_softmax_does_are_said_to():
    said = table1.nearly_deterministic(entropies_on_cifar5(l2=0.38, ffgu=0.38, fflu=0.51, mnfg=0.34))
    assert said.endswith(
        "close to deterministic, and the doubt of FFGU (38%), MNFG (34%) is that of a softmax network rather "
        "than of many (mean entropy on the unseen classes: L2 38%), that of FFLU (51%) is not."
    )
    said = table1.nearly_deterministic(entropies_on_cifar5(l2=0.38, fflu=0.51))
    assert said.endswith(
        "but their doubt is not that of a softmax network (mean entropy on the unseen "
        "classes: L2 38%, FFLU (51%))."
    )
    assert table1.nearly_deterministic(entropies_on_cifar5(fflu=0.51)).endswith("close to deterministic.")


def test_large_sigmas_are_not():
    training = {**TRAINING, "method": {"name": "ffgu", "initial_sigma": 0.01}}
    assert table1.nearly_deterministic(results_of([Result("cifar5", "ffgu", 0, training=training)])) == ""
    assert table1.nearly_deterministic(EMPTY) == ""


def test_rows(results):
    rows = table1.rows(results)
    assert {row["method"] for row in rows} >= {"l2", "edl", "edl-type2"}
    assert {row["data"] for row in rows} == {"digits"}
    assert "raw_accuracy" in rows[0]
