import pytest
from tests.studies.successors.made import EMPTY, result, results_of

from nescio.studies.successors._sets import ALL_ARMS, SETS
from nescio.studies.successors._tables import NOT_MEASURED, SCORE_LABELS, spread, tables


@pytest.mark.parametrize(
    ("values", "text"), [([], NOT_MEASURED), ([0.9641], "96.4"), ([0.9, 0.94, 0.92], "92.0 ± 2.0")]
)
def test_mean_and_spread(values, text):
    assert spread(values, 1, 100) == text


def made():
    posthoc = {"posthoc": {"auroc": 0.94}, "temperature": {"nll": 0.25252}}
    first = result("edl", accuracy=0.97, ece=0.01, nll=0.25, aurc=0.002, auroc=0.81, **posthoc)
    second = result("edl", seed=1, accuracy=0.95, ece=0.03, nll=0.35, aurc=0.004, auroc=0.83)
    softmax = result("softmax")
    of_scores = {name: {"auroc": 0.7, "aupr": 0.6, "fpr95": 0.5} for name in SCORE_LABELS}
    softmax.numbers["scores"] = {"ood": {"letter U to Z": of_scores}}
    return results_of([first, second, softmax])


def test_a_table_of_known_inputs_and_one_for_each_ood_set():
    ranks, known, ood = tables(made())
    assert ranks.name == "ranks"
    assert len(known.rows) == 3 * len(ALL_ARMS)
    rows = {row[:2]: row for row in known.rows}
    row = rows["EDL (library's default)", "as trained"]
    assert row[2:7] == ("2", "96.00 ± 1.41", "2.00 ± 1.41", "0.3000 ± 0.0707", "3.00 ± 1.41")
    assert row[-2:] == ("1", "1")
    assert rows["RED", "as trained"][3] == NOT_MEASURED
    assert rows["EDL (library's default)", "with temperature"][5] == "0.2525"
    assert "at most 0.3 of a pass (`benchmarks/trust.py`), on a small network" in known.caption
    found = {row[:2]: row for row in ood.rows}
    assert found["EDL (library's default)", "with temperature and trust"][2] == "0.9400"
    assert found["Softmax: energy", "score alone"][2:] == ("0.7000", "0.6000", "50.0", "-", "-", "-", "-")
    for table in (ranks, known, ood):
        assert {len(row) for row in table.rows} == {len(table.header)}


def test_ranks_where_all_were_measured():
    everything = []
    for name in ("letter", "clinc150"):
        for place, arm in enumerate(ALL_ARMS):
            everything.append(result(arm, name, nll=place / 10))
    table = tables(results_of(everything))[0]
    nll = table.header.index("NLL, as trained")
    assert [row[nll] for row in table.rows] == [f"{place + 1}.0" for place in range(len(ALL_ARMS))]
    assert {row[-1] for row in table.rows} == {NOT_MEASURED}


def test_without_results_only_the_ranks():
    (table,) = tables(EMPTY)
    assert {row[2] for row in table.rows} == {NOT_MEASURED}


def test_names_of_tables_differ():
    everything = [result("edl", name) for name in SETS]
    names = [table.name for table in tables(results_of(everything))]
    assert len(names) == len(set(names))
