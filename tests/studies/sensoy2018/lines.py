"""What is drawn."""

import numpy as np


def lines(axes):
    """label -> y of every line that has one."""
    found = {line.get_label(): np.asarray(line.get_ydata(), float) for line in axes.lines}
    return {name: values for name, values in found.items() if not name.startswith("_")}


def legend_names(picture):
    """The words of the legend."""
    return [text.get_text() for text in picture.legends[0].get_texts()]


def has_band(axes, place):
    """Whether the line at this place has a band."""
    return bool(axes.collections[place].get_paths())
