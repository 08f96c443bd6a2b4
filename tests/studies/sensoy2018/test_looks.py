from nescio.studies.sensoy2018._arms import COMPARED, LOSSES
from nescio.studies.sensoy2018._looks import LOOKS, curve_rows, look


def test_looks_differ_in_dashes_and_marker_and_in_colour_but_for_the_two_with_relu():
    for arms in (COMPARED, tuple(LOSSES)):
        dashes = {LOOKS[name][1] for name in arms}
        markers = {LOOKS[name][2] for name in arms}
        assert len(dashes) == len(markers) == len(arms)
    others = [LOOKS[name][0] for name in COMPARED if name != "edl-notebook"]
    assert len(set(others)) == len(others)
    assert LOOKS["edl-notebook"][0] == LOOKS["edl-printed"][0]


def test_look():
    assert "marker" not in look("edl")
    assert look("edl", marker_every=3)["markevery"] == 3
    assert look("edl")["label"] == "EDL"


def test_rows_have_every_point_of_every_seed(results):
    rows = curve_rows(results, "digits", ["l2", "mnfg"], "pgd", lambda numbers: dict(numbers["curve"]))
    assert len(rows) == 2 * 2
    curve = results.numbers("digits", "l2", "pgd")[1]["curve"]
    assert rows[3] == {"data": "digits", "method": "l2", "seed": 1} | {n: v[1] for n, v in curve.items()}
