import numpy as np
from tests.studies.sensoy2018.lines import has_band, lines
from tests.studies.sensoy2018.made import EMPTY

from nescio.studies._estimates import estimate, text_of
from nescio.studies.sensoy2018 import _figure3 as figure3


def test_nothing_is_drawn_of_nothing():
    assert figure3.draw(EMPTY) == []


def test_figure3(results):
    (figure,) = figure3.draw(results)
    (axes,) = figure.picture.axes
    assert list(lines(axes)) == ["L2", "Dropout", "EDL", "EDL (as printed)"]
    share = np.mean([each["share"]["ood"] for each in results.numbers("digits", "l2", "ood")], axis=0)
    np.testing.assert_allclose(lines(axes)["L2"], share)
    assert all(has_band(axes, place) for place in range(4))
    assert {"entropy", "share_ood", "share_known"} <= set(figure.rows[0])


def test_table(results):
    rows = {row[0]: row for row in figure3.table(results, "digits").rows}
    scores = results.numbers("digits", "dropout", "ood")[0]["scores"]
    assert rows["Dropout"][1] == f"{100 * scores['ood_median_entropy']:.1f}"
    assert rows["Dropout"][3] == f"{scores['entropy_auroc']:.3f}"
    false_alarms = estimate([scores["entropy_fpr95"]], is_share=True, images=200)
    assert rows["Dropout"][5] == text_of(false_alarms, 1, 100)
    assert "[" in rows["EDL"][3]  # three seeds
    assert rows["MNFG"][1:] == ("-",) * 5
