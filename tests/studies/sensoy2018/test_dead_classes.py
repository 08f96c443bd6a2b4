from tests.studies.sensoy2018.made import result, results_of

from nescio.studies.sensoy2018 import _dead_classes as dead_classes


def trained(seed, dead, accuracy):
    scores = {"accuracy": accuracy, "raw_accuracy": accuracy + 0.05}
    return result(
        "edl-relu", "dead_classes", seed, known={"images": 100, "scores": scores, "evidence": {"dead": dead}}
    )


def test_dead_classes():
    made = results_of([trained(0, [], 0.9), trained(1, [3, 7], 0.7), trained(2, [4], 0.8)])
    nothing, some = dead_classes.table(made).rows
    assert nothing == ("EDL (as printed)", "-", "-", "-", "-", "-")
    assert some[:4] == ("EDL (ReLU, usual start)", "3", "67 [21, 94]", "3")
    assert some[4].startswith("80.0 [55.2, 10")
    assert some[5].startswith("85.0 [")
    assert [row["dead"] for row in dead_classes.rows(made)] == ["", "3 7", "4"]


def test_they_are_counted_in_what_was_measured(results):
    for row in dead_classes.table(results).rows:
        assert row[1] == "1"
        assert 0 <= int(row[3]) <= 10
    counts = dead_classes.dead_counts(results, "edl-relu")
    assert len(counts) == 1
