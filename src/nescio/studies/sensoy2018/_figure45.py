"""Figures 4 and 5: accuracy and entropy under attack, and what flatters these curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nescio.plots import add_legend, draw_band, panels
from nescio.studies._estimates import Estimate, estimate, text_of
from nescio.studies._figures import THIRD, Curve, Figure, Row
from nescio.studies.plan import digest_of
from nescio.studies.report import Table
from nescio.studies.sensoy2018._arms import COMPARED, SOURCE, WITHOUT_ENSEMBLE, label, labels
from nescio.studies.sensoy2018._looks import LEGEND_COLUMNS, curve_rows, in_our_style, look
from nescio.studies.sensoy2018._results import CIFAR5, MNIST, TITLES, PaperResults
from nescio.studies.sensoy2018.presets import FGSM, PGD, TRANSFER

SHARES = ("accuracy", "without_gradient")
NAMES = {
    "accuracy": "accuracy",
    "entropy": "entropy",
    "entropy_when_wrong": "entropy when wrong",
    "without_gradient": "zero gradient",
}
AXES = {
    "accuracy": "accuracy, %",
    "entropy": "entropy, % of maximum",
    "entropy_when_wrong": "entropy when wrong,\n% of maximum",
    "without_gradient": "images, %",
}
NUMBERS = {MNIST: "figure4", CIFAR5: "figure5"}
BANDS = (
    "The bands are 95% intervals: over three seeds, or of a share over the images of one; the entropy of one "
    "seed has none."
)


@in_our_style
def draw(results: PaperResults) -> list[Figure]:
    """For each data set that was attacked: the paper's two panels, the ensemble's, and the honest ones."""
    figures: list[Figure] = []
    for role, name in NUMBERS.items():
        comparison = results.comparison(role)
        if comparison is None or not results.compared(comparison, FGSM):
            continue
        title = f"Figure {name[-1]}: attacks on {TITLES[comparison]}"
        figures.append(_paper_panels(results, comparison, name, title, WITHOUT_ENSEMBLE))
        if results.numbers(comparison, "ensemble", FGSM):
            with_ensemble = f"{title}, with Deep Ensemble"
            figures.append(_paper_panels(results, comparison, f"{name}-ensemble", with_ensemble, COMPARED))
        figures.append(_honest_panels(results, comparison, f"{name}-honest", f"{title}, looked at twice"))
    return figures


def _paper_panels(
    results: PaperResults, comparison: str, name: str, title: str, arms: Sequence[str]
) -> Figure:
    picture, grid = panels(2)
    for axes, measure in zip(grid[0], ("accuracy", "entropy"), strict=True):
        _draw(axes, results, comparison, FGSM, measure, arms)
    if "ensemble" in arms:
        add_legend(picture, columns=LEGEND_COLUMNS)
    else:
        add_legend(picture)
    caption = (
        f"Fast gradient sign attacks on {_images(results, comparison)} test images, each model attacked by "
        "its own gradient; u = 1 counts as wrong. A method that draws answers with draws that its attacker "
        f"has not seen. {BANDS}"
    )
    if "ensemble" in arms:
        caption += " Deep Ensemble was trained on such images, which is why the paper leaves it out."
    rows = curve_rows(results, comparison, arms, FGSM, lambda numbers: dict(numbers["curve"]))
    return Figure(name, title, caption, picture, rows)


def _honest_panels(results: PaperResults, comparison: str, name: str, title: str) -> Figure:
    picture, grid = panels(3, rows=2, height=2.9, width=THIRD)
    places = (
        (grid[0, 0], PGD, "without_gradient", "PGD: gradient exactly zero"),
        (grid[0, 1], TRANSFER, "accuracy", "FGSM images of L2"),
        (grid[0, 2], PGD, "accuracy", "PGD"),
        (grid[1, 0], FGSM, "entropy_when_wrong", "FGSM"),
        (grid[1, 1], TRANSFER, "entropy_when_wrong", "FGSM images of L2"),
        (grid[1, 2], PGD, "entropy_when_wrong", "PGD"),
    )
    for axes, attack, measure, heading in places:
        _draw(axes, results, comparison, attack, measure, COMPARED)
        axes.set_title(heading, loc="left", weight="bold", size=11)
    add_legend(picture, columns=LEGEND_COLUMNS)
    caption = (
        "An image whose gradient is exactly zero can't be moved by an attack that follows it, which looks "
        "like strength and is none; at epsilon 0 are the images as they are. Images made on L2 need no "
        f"gradient of the model that is shown them. {_without_transfer(results, comparison)}"
        f"{_former_source(results, comparison)}PGD takes "
        f"{_steps(results, comparison)} smaller steps from a start drawn at random. "
        f"{_draws(results, comparison)}Where few images are wrong, at a small epsilon, so few are in the "
        f"mean. {BANDS}"
    )
    rows: list[Row] = []
    for attack in (FGSM, TRANSFER, PGD):
        found = curve_rows(results, comparison, COMPARED, attack, lambda numbers: dict(numbers["curve"]))
        rows += [{"attack": attack, **row} for row in found]
    return Figure(name, title, caption, picture, rows)


def _without_transfer(results: PaperResults, comparison: str) -> str:
    """Which methods have not been shown them, in words."""
    shown = results.compared(comparison, TRANSFER)
    others = [arm for arm in results.compared(comparison, PGD) if arm not in (SOURCE, *shown)]
    if not others:
        return ""
    return f"Not measured for {labels(others)}. "


def _former_source(results: PaperResults, comparison: str) -> str:
    """Which methods were shown images of an L2 network with other settings than that of now, in words."""
    present = [_without_seed(result.training) for result in results.of(comparison, SOURCE)]
    if not present:
        return ""
    now = present[0]
    arms: dict[str, dict[str, None]] = {}  # by what differs, each arm once
    for arm in results.compared(comparison, TRANSFER):
        for result in results.of(comparison, arm):
            source = result.settings.get(TRANSFER, {}).get("source")
            if source is None or digest_of(_without_seed(source)) == digest_of(now):
                continue
            difference = _difference(_without_seed(source), now)
            arms.setdefault(difference, {})[arm] = None
    said = ""
    for difference, shown in arms.items():
        verb = "was" if len(shown) == 1 else "were"
        said += f"{labels(shown)} {verb} shown images of a former L2 network{difference}. "
    return said


def _without_seed(training: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a training, whatever its seed."""
    settings = {name: value for name, value in training["training"].items() if name != "seed"}
    return {**training, "training": settings}


def _difference(former: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """How the training of a former network differs from that of now."""
    said = []
    for name, value in former["training"].items():
        if value != now["training"].get(name):
            said.append(f"{name.replace('_', ' ')} {value} instead of {now['training'].get(name)}")
    if not said:
        return ""
    return f" ({', '.join(said)})"


def _draw(
    axes: Any, results: PaperResults, comparison: str, attack: str, measure: str, arms: Sequence[str]
) -> None:
    for arm in arms:
        # To L2 its own images are those made on L2.
        own = FGSM if attack == TRANSFER and arm == SOURCE else attack
        found = results.numbers(comparison, arm, own)
        if not found:
            continue
        at = found[0]["curve"]["epsilon"]
        lines = [numbers["curve"][measure] for numbers in found]
        images = [results.images(comparison, arm, own)] * len(at)
        curve = Curve(at, lines, is_share=measure in SHARES, images=images)
        means, band = curve.line(scale=100.0)
        draw_band(axes, at, means, band, look(arm, marker_every=1))
    axes.set(xlabel="epsilon", ylabel=AXES[measure], ylim=(-2, 102))
    axes.set_xlim(left=0)


def _images(results: PaperResults, comparison: str) -> str:
    counts = sorted(results.setting(comparison, FGSM, "images"))
    return " or ".join(map(str, counts))


def _steps(results: PaperResults, comparison: str) -> str:
    steps = results.setting(comparison, PGD, "steps")
    return " or ".join(map(str, steps)) or "several"


def _draws(results: PaperResults, comparison: str) -> str:
    """How PGD follows a method that draws, in a sentence; which of them, where it differs between them."""
    same = []
    fresh = []
    for arm in COMPARED:
        for result in results.of(comparison, arm)[:1]:
            settings = result.settings.get(PGD, {})
            if settings.get("samples") is None:
                continue
            if settings["fresh_draws"]:
                fresh.append(arm)
            else:
                same.append(arm)
    said = ""
    if fresh:
        said += f"Against {labels(fresh)} its gradient is a mean over fresh draws in every step. "
    if same:
        said += (
            f"Against {labels(same)} it is a mean over the same few draws in every step; fresh ones make "
            "a stronger attack. "
        )
    return said


COLUMNS = (
    (FGSM, "accuracy"),
    (FGSM, "entropy_when_wrong"),
    (TRANSFER, "accuracy"),
    (TRANSFER, "entropy_when_wrong"),
    (PGD, "accuracy"),
    (PGD, "entropy_when_wrong"),
    (PGD, "without_gradient"),
)
WORDS = {FGSM: "FGSM", TRANSFER: "from L2", PGD: "PGD"}
HEADER = (
    "method",
    "samples",
    "zero gradient, %",
    *(f"{WORDS[attack]}: {NAMES[measure]}, %" for attack, measure in COLUMNS),
)


def table(results: PaperResults, comparison: str) -> Table:
    """For each method: samples drawn, images without gradient, means over the epsilons of all attacks."""
    shared = shared_epsilons(results, comparison)
    rows = []
    for arm in results.listed(comparison):
        cells = [label(arm), _samples(results, comparison, arm)]
        cells.append(text_of(results.share(comparison, arm, FGSM, "without_gradient"), 1, 100))
        for attack, measure in COLUMNS:
            cells.append(text_of(estimate_over(results, comparison, arm, attack, measure, shared), 1, 100))
        rows.append(tuple(cells))
    epsilons = ", ".join(f"{each:g}" for each in shared)
    caption = (
        f"Means over epsilon {epsilons}; of the entropy when wrong over all wrong images. Zero gradient: of "
        "the images as they are, and where PGD has left them. Samples: draws that each attacked prediction "
        f"is the mean of, for methods that draw. {_images(results, comparison)} images. "
        f"{_former_source(results, comparison)}In brackets 95% intervals: over three seeds, or of a share "
        "over the images, rather too wide than too narrow for a mean over epsilons."
    )
    title = f"Attacks on {TITLES[comparison]}, all at the same strength"
    return Table(f"attacks-{comparison}", title, caption, HEADER, rows)


def _samples(results: PaperResults, comparison: str, arm: str) -> str:
    for result in results.of(comparison, arm):
        samples = result.settings.get(FGSM, {}).get("samples")
        if samples is not None:
            return str(samples)
    return "-"


def shared_epsilons(results: PaperResults, comparison: str) -> list[float]:
    """Those above zero that both FGSM and PGD were made with: attacks are compared at the same strength."""
    weak = results.setting(comparison, FGSM, "epsilons")
    strong = results.setting(comparison, PGD, "epsilons")
    if not weak:
        return []
    return [epsilon for epsilon in weak[0] if epsilon > 0 and (not strong or epsilon in strong[0])]


def estimate_over(
    results: PaperResults,
    comparison: str | None,
    arm: str,
    attack: str,
    measure: str,
    epsilons: Sequence[float] | None = None,
) -> Estimate | None:
    """The mean of a measure over these epsilons, by default all above zero, with its interval.

    A measure of the wrong counts each wrong image alike, however many there are at an epsilon.
    """
    values = []
    for numbers in results.numbers(comparison, arm, attack):
        value = mean_over(numbers["curve"], measure, epsilons)
        if value is not None:
            values.append(value)
    images = results.images(comparison, arm, attack)
    return estimate(values, is_share=measure in SHARES, images=images)


def mean_over(curve: Any, measure: str, epsilons: Sequence[float] | None = None) -> float | None:
    """The mean of a measure of one seed over these epsilons, by default all above zero; None for none."""
    total = 0.0
    weights = 0.0
    for place, epsilon in enumerate(curve["epsilon"]):
        is_wanted = epsilon > 0 if epsilons is None else epsilon in epsilons
        value = curve[measure][place]
        if not is_wanted or value is None:
            continue
        weight = 1.0
        if measure == "entropy_when_wrong":
            weight = 1 - curve["accuracy"][place]
        total += weight * value
        weights += weight
    return total / weights if weights else None
