from tests.studies.successors.made import EMPTY, result, results_of

from nescio.studies.successors._leaderboard import leaderboard
from nescio.studies.successors._sets import ALL_ARMS, SETS


def rows_of(page, title):
    """The cells of the table below a heading."""
    part = page.split(f"## {title}\n")[1].split("\n## ")[0]
    rows = []
    for line in part.splitlines():
        if line.startswith("| "):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows[2:]


def test_nothing_measured_yet():
    page = leaderboard(EMPTY)
    for each in SETS.values():
        assert f"## {each.title}\n" in page
    assert page.count("Not measured.") == len(SETS)


def test_the_best_comes_first_and_what_is_missing_is_named():
    results = results_of(
        [
            result("edl", auroc=0.8, posthoc={"auroc": 0.95}),
            result("red", auroc=0.9),
            result("red", seed=1, auroc=0.92),
        ]
    )
    page = leaderboard(results)
    rows = rows_of(page, "letter, A to T")
    assert [(row[0], row[1]) for row in rows] == [
        ("EDL (library's default)", "with temperature and trust"),
        ("RED", "as trained"),
        ("EDL (library's default)", "as trained"),
    ]
    assert rows[1][2] == "2"
    assert rows[1][7] == "0.910 ± 0.014"
    assert "Not measured: Softmax, EDL (equation 5, weight 1), RED with temperature and trust, I-EDL," in page


def test_what_was_measured_with_temperature_and_trust_alone_has_no_passes():
    measured = result("edl", posthoc={"auroc": 0.95})
    del measured.numbers["plain"]
    rows = rows_of(leaderboard(results_of([measured])), "letter, A to T")
    assert len(rows) == 1
    assert rows[0][:3] == ["EDL (library's default)", "with temperature and trust", "1"]
    assert rows[0][-1] == "-"


def test_ranks_are_sorted_by_auroc():
    everything = []
    for name in ("letter", "clinc150"):
        for place, arm in enumerate(ALL_ARMS):
            everything.append(result(arm, name, auroc=0.5 + place / 100))
    page = leaderboard(results_of(everything))
    rows = rows_of(page, "Mean ranks")
    assert rows[0][:2] == ["EDL ensemble, distilled", "1.0"]
    assert "With temperature and trust: not measured." in page
    assert "may differ by less than this by chance: AUROC, own score " in page
    assert "| as trained | AUROC, own score | accuracy | NLL | ECE | AURC |" in page
    assert 'Where it says\n"own score" it is by the score of the method\'s authors' in page


def test_a_method_without_one_of_the_numbers_has_a_dash_there():
    everything = []
    for name in ("letter", "clinc150"):
        for place, arm in enumerate(ALL_ARMS):
            everything.append(result(arm, name, auroc=0.5 + place / 100, accuracy=0.5 + place / 100))
    for each in everything:
        if each.arm == "red":
            each.numbers["plain"]["ood"] = {}
    page = leaderboard(results_of(everything))
    rows = {row[0]: row for row in rows_of(page, "Mean ranks")}
    assert rows["RED"][1:3] == ["-", "14.0"]
    assert list(rows)[-1] == "RED"
    assert rows["Softmax"][1:3] == ["16.0", "17.0"]
    assert "Not ranked" not in page
    assert {row[0]: row for row in rows_of(page, "CLINC150")}["RED"][7] == "not measured"


def test_verdicts_are_counted():
    page = leaderboard(results_of([result("edl", posthoc={}), result("edl", "clinc150", posthoc={})]))
    assert "never raises the NLL: **reproduced for 1, not measured for 16**" in page
    assert "I-EDL beats EDL in OOD detection: **not measured**" in page
