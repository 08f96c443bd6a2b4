import pytest
import torch
from matplotlib.figure import Figure

from nescio import Opinion
from nescio.errors import InputError
from nescio.plots import UncertaintyDisplay


def test_each_group_makes_a_hundred_percent():
    groups = {"known": Opinion(torch.rand(30, 4) * 20), "ood": Opinion(torch.zeros(7, 4))}
    display = UncertaintyDisplay.from_predictions(groups, ax=Figure().add_subplot())
    for outline in display.stairs_.values():
        assert outline.get_data().values.sum() == pytest.approx(100)
    assert display.stairs_["ood"].get_data().values[-1] == 100
    assert display.ax_.get_legend_handles_labels()[1] == ["known", "ood"]


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="uncertainty must have 1 to 6 groups, got 0"):
        UncertaintyDisplay({})
    with pytest.raises(InputError, match="each group must have one input or more, got none of 'empty'"):
        UncertaintyDisplay({"empty": []})
    with pytest.raises(InputError, match=r"predictions\['a'\] must be an Opinion or a Categorical"):
        UncertaintyDisplay.from_predictions({"a": torch.rand(3, 2)})
