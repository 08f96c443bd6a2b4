"""Draw the picture of the front page from the models that come with the package, for light and dark pages.

python -m tools.docs.front_picture    writes docs/images/opinions-light.png and opinions-dark.png
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nescio import Opinion, TrainedModel, data
from nescio.metrics import narrowest, rotate
from nescio.opinions import Prediction
from nescio.plots import PALETTE
from nescio.serve._models import bundled_paths

ROOT = Path(__file__).parents[2]
COLOURS = {
    "light": {
        "ink": "#1b1f24",
        "belief": PALETTE["blue"],
        "softmax": "#8a949e",
        "unknown": PALETTE["vermillion"],
    },
    "dark": {"ink": "#e6e9ee", "belief": PALETTE["sky"], "softmax": "#98a2ad", "unknown": PALETTE["orange"]},
}
ANGLE = 80  # of the turned 1


def inputs(evidential: TrainedModel) -> list[tuple[str, Tensor]]:
    """What the networks are shown: a digit, the same one turned, and a letter of usual uncertainty."""
    digits = data.load("digits", "test")
    letters = data.load("letters", "test")
    one = narrowest(digits.images[digits.labels == digits.classes.index("1")])
    upright, turned = rotate(one, (0, ANGLE))
    some = letters.images[:: len(letters) // 400]
    order = evidential.predict(some).uncertainty.argsort()
    letter = some[order[len(order) // 2]]
    return [("a digit", upright), ("turned", turned), ("a letter", letter)]


def draw(softmax: TrainedModel, evidential: TrainedModel, colours: dict[str, str]) -> Figure:
    """One row for each input: the picture, what softmax says, and the opinion."""
    shown = inputs(evidential)
    figure, grid = pyplot.subplots(
        len(shown), 3, figsize=(7, 4.7), width_ratios=[0.9, 2.1, 2.4], layout="constrained"
    )
    for row, (name, image) in zip(grid, shown, strict=True):
        picture, left, right = row
        picture.imshow(image[0], cmap="gray_r")
        picture.set_xlabel(name)
        picture.set(xticks=[], yticks=[])
        picture.spines[:].set_visible(False)
        _bars(left, softmax.predict(image[None])[0], colours)
        _bars(right, evidential.predict(image[None])[0], colours)
    grid[0][1].set_title("softmax")
    grid[0][2].set_title("nescio")
    return figure


def _bars(axes: Axes, said: Prediction, colours: dict[str, str]) -> None:
    heights = said.probabilities
    colour = colours["softmax"]
    places = list(range(10))
    names = [str(digit) for digit in range(10)]
    if isinstance(said, Opinion):
        heights = said.belief
        colour = colours["belief"]
        axes.bar(10.6, float(said.uncertainty), width=1.2, color=colours["unknown"])
        places.append(10.6)  # type: ignore[arg-type]
        names.append("?")
    axes.bar(range(10), heights, color=colour)
    axes.set(ylim=(0, 1.4), yticks=[0, 1], xticks=places)
    axes.set_xticklabels(names)
    best = int(heights.argmax())
    is_unknown = isinstance(said, Opinion) and float(said.uncertainty) >= 0.5
    text = "I do not know" if is_unknown else f"{best}, {float(heights[best]):.0%}"
    axes.text(0.46, 1.0, text, transform=axes.transAxes, ha="center", va="top", weight="bold")


def main() -> None:
    """Write both pictures."""
    paths = bundled_paths()
    softmax, evidential = TrainedModel.load(paths["softmax"]), TrainedModel.load(paths["edl"])
    for name, colours in COLOURS.items():
        style: Any = {
            "font.size": 12,
            "xtick.labelsize": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "text.color": colours["ink"],
            "axes.labelcolor": colours["ink"],
            "axes.edgecolor": colours["ink"],
            "xtick.color": colours["ink"],
            "ytick.color": colours["ink"],
        }
        with mpl.rc_context(style), torch.no_grad():
            figure = draw(softmax, evidential, colours)
        path = ROOT / "docs" / "images" / f"opinions-{name}.png"
        figure.savefig(path, dpi=130, transparent=True, metadata={"Software": None})
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
