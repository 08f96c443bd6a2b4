import pytest

from nescio.studies.sensoy2018 import _calibration as calibration
from nescio.studies.sensoy2018._arms import label


@pytest.mark.usefixtures("_small")
def test_how_good_the_probabilities_are(results):
    table = calibration.table(results, "digits")
    rows = {row[0]: row[1:] for row in table.rows}
    assert list(rows) == [label(arm) for arm in ("l2", "dropout", "edl", "edl-printed")]
    scores = results.numbers("digits", "dropout", "known")[0]["scores"]
    assert rows["Dropout"] == (
        f"{100 * scores['ece']:.2f}",
        f"{scores['nll']:.4f}",
        f"{scores['brier']:.4f}",
        f"{100 * scores['aurc']:.3f}",
    )
    assert all(cell.endswith("]") for cell in rows["EDL"])  # three seeds
