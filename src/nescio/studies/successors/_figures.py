"""The figures of the study: critical differences of mean ranks, and what temperature and trust change."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure as Picture

from nescio.plots import PALETTE, add_legend, panels, style
from nescio.studies._figures import Figure
from nescio.studies.successors._arms import ARMS, label, labels
from nescio.studies.successors._ranks import CRITERIA, Criterion, Ranking, ranking
from nescio.studies.successors._results import (
    PLAIN,
    POSTHOC,
    VARIANT_TITLES,
    SuccessorResults,
    detection_path,
    ood_pairs,
)
from nescio.studies.successors._sets import ALL_ARMS, SETS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 8.6  # inches
ROW = 0.27  # the height of a label
GROUP_ROW = 0.16
TOP = 1.2  # above the labels: title, axis and the bar of the critical difference
SPAN = 0.32  # of AUROC, the width of each panel of what trust changes
MARGIN = 0.012
INK = PALETTE["ink"]
BASELINE_COLOUR = PALETTE["vermillion"]
EVIDENTIAL_COLOUR = PALETTE["blue"]
# A ring around a diamond: both are seen where nothing changed.
VARIANT_LOOKS: dict[str, dict[str, Any]] = {
    PLAIN: {
        "color": PALETTE["vermillion"],
        "marker": "o",
        "markersize": 9,
        "markerfacecolor": "none",
        "markeredgewidth": 1.6,
        "zorder": 3,
    },
    POSTHOC: {"color": PALETTE["blue"], "marker": "D", "markersize": 4.5},
}


def draw(results: SuccessorResults) -> list[Figure]:
    """All figures that there are results for."""
    figures = []
    with style(dark=False):
        for criterion in CRITERIA:
            found = _ranks_figure(results, criterion)
            if found is not None:
                figures.append(found)
        changed = _trust_figure(results)
        if changed is not None:
            figures.append(changed)
    return figures


def _ranks_figure(results: SuccessorResults, criterion: Criterion) -> Figure | None:
    rankings: list[tuple[str, Ranking]] = []
    for variant in (PLAIN, POSTHOC):
        found = ranking(results, criterion, variant)
        if found is not None:
            rankings.append((variant, found))
    if not rankings:
        return None
    heights = [_height(found) for _, found in rankings]
    picture = Picture(figsize=(WIDTH, sum(heights)), layout="constrained")
    grid = picture.subplots(len(rankings), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    rows = []
    said = []
    ranked_over = {", ".join(found.blocks) for _, found in rankings}
    for (variant, found), axes in zip(rankings, grid[:, 0], strict=True):
        draw_ranks(axes, found, VARIANT_TITLES[variant])
        said.append(
            f"{VARIANT_TITLES[variant]}: {len(found.blocks)} data sets, "
            f"Friedman's test p = {found.p_value:.2g}, "
            f"critical difference {found.critical_difference:.1f} ranks"
        )
        if found.not_ranked:
            said[-1] += f", without {labels(found.not_ranked)}"
        if len(ranked_over) > 1:
            said[-1] += f", ranked over {', '.join(found.blocks)}"
        for arm, mean in found.mean_ranks.items():
            rows.append({"variant": variant, "method": arm, "mean_rank": mean})
    caption = (
        "Mean ranks, the best at the left; evidential methods blue, others orange-red. Methods under one "
        f"bar are not shown to differ by Nemenyi's test at 5 %. {'; '.join(said)}."
    )
    if len(ranked_over) == 1:
        caption += f" Ranked over: {', '.join(rankings[0][1].blocks)}."
    return Figure(f"ranks-{criterion.name}", f"Mean ranks by {criterion.title}", caption, picture, rows)


def _height(found: Ranking) -> float:
    half = (len(found.mean_ranks) + 1) // 2
    return TOP + ROW * half + GROUP_ROW * len(found.groups())


def draw_ranks(axes: Axes, found: Ranking, title: str) -> None:
    """Mean ranks on a line, labels at both sides, and bars over groups that are not shown to differ.

    Args:
        axes: Where it is drawn; one unit of its y axis is an inch.
        found: What is drawn.
        title: Above it.
    """
    ordered = sorted(found.mean_ranks, key=lambda arm: found.mean_ranks[arm])
    groups = found.groups()
    count = len(ordered)
    height = _height(found)
    axes.set_axis_off()
    axes.set_xlim(1 - 0.42 * count, count + 0.42 * count)
    axes.set_ylim(height, 0)
    axes.text(1 - 0.42 * count, 0.12, title, ha="left", va="center", weight="bold", color=INK)
    line = 0.92
    axes.plot([1, count], [line, line], color=INK, linewidth=1.2)
    for place in range(1, count + 1):
        axes.plot([place, place], [line - 0.06, line], color=INK, linewidth=1)
        if count <= 10 or place % 2:
            axes.text(place, line - 0.1, str(place), ha="center", va="bottom", fontsize=10, color=INK)
    _draw_difference(axes, found.critical_difference, count)
    for place, group in enumerate(groups):
        level = line + 0.14 + GROUP_ROW * place
        ends = [found.mean_ranks[group[0]] - 0.08, found.mean_ranks[group[-1]] + 0.08]
        axes.plot(ends, [level, level], color=PALETTE["muted"], linewidth=4, solid_capstyle="butt")
    below = line + 0.24 + GROUP_ROW * len(groups)
    half = (count + 1) // 2
    for place, arm in enumerate(ordered):
        rank = found.mean_ranks[arm]
        is_left = place < half
        row = place if is_left else count - 1 - place
        level = below + ROW * row
        edge = 1 - 0.03 * count if is_left else count + 0.03 * count
        colour = EVIDENTIAL_COLOUR if ARMS[arm].is_evidential else BASELINE_COLOUR
        axes.plot([rank, rank, edge], [line, level, level], color=colour, linewidth=1)
        axes.plot([rank], [line], marker="o", markersize=3.5, color=colour)
        text = f"{label(arm)}  {rank:.1f}" if is_left else f"{rank:.1f}  {label(arm)}"
        axes.text(
            edge + (-0.01 if is_left else 0.01) * count,
            level,
            text,
            ha="right" if is_left else "left",
            va="center",
            fontsize=10,
            color=INK,
        )


def _draw_difference(axes: Axes, difference: float, count: int) -> None:
    """The critical difference as a bar above the axis, at its right end."""
    shown = min(difference, count - 1.0)
    level = 0.54  # below the title
    start = count - shown
    axes.plot([start, count], [level, level], color=INK, linewidth=1.6)
    for end in (start, count):
        axes.plot([end, end], [level - 0.05, level + 0.05], color=INK, linewidth=1.6)
    text = f"critical difference {difference:.1f}"
    if shown < difference:
        text += " (cut off)"
    axes.text(start + shown / 2, level - 0.08, text, ha="center", va="bottom", fontsize=10, color=INK)


def _trust_figure(results: SuccessorResults) -> Figure | None:
    """AUROC by u of each method as trained and with temperature and trust, a panel for each OOD set."""
    pairs = []
    for name, ood in ood_pairs():
        if any(results.has(name, arm) for arm in SETS[name].arms):
            pairs.append((name, ood))
    if not pairs:
        return None
    columns = min(len(pairs), 2)
    count = -(-len(pairs) // columns)
    picture, grid = panels(columns, count, height=4.6)
    rows: list[dict[str, object]] = []
    for place, axes in enumerate(grid.flat):
        if place >= len(pairs):
            axes.set_axis_off()
            continue
        name, ood = pairs[place]
        rows += _draw_changes(axes, results, name, ood)
        if place % columns:
            _move_names(axes, is_same=SETS[name].arms == SETS[pairs[place - 1][0]].arms)
    add_legend(picture, columns=2)
    caption = (
        "AUROC of OOD inputs by u, each method as trained and with temperature and trust; a mark is the mean "
        "over the seeds, a line from the lowest to the highest seed. All panels are equally wide, so that "
        "differences compare; a mean that lies further to the left is an arrow at the edge with its number. "
        "Methods without a mark were not measured."
    )
    return Figure("trust", "What temperature and trust change", caption, picture, rows)


def _draw_changes(axes: Axes, results: SuccessorResults, name: str, ood: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    arms = SETS[name].arms
    means: dict[str, dict[int, float]] = {PLAIN: {}, POSTHOC: {}}  # by the place of the arm
    for variant, found in means.items():
        colour = str(VARIANT_LOOKS[variant]["color"])
        for place, arm in enumerate(arms):
            values = results.by_seed(name, arm, variant, *detection_path(arm, ood, "uncertainty"))
            if not values:
                continue
            found[place] = statistics.fmean(values.values())
            ends = [min(values.values()), max(values.values())]
            axes.plot(ends, [place, place], color=colour, linewidth=1.6)
            for seed, value in values.items():
                row = {"set": name, "ood": ood, "method": arm, "variant": variant}
                rows.append({**row, "seed": seed, "auroc": value})
        axes.plot(
            list(found.values()),
            list(found),
            linestyle="none",
            label=VARIANT_TITLES[variant],
            **VARIANT_LOOKS[variant],
        )
    # The best is at the right: what is cut off, if anything, lies far below it.
    best = max([*means[PLAIN].values(), *means[POSTHOC].values()])
    low = best + MARGIN - SPAN
    axes.set_xlim(low, low + SPAN)
    _draw_beyond(axes, means, low)
    axes.set_yticks(range(len(arms)), [label(arm) for arm in arms], fontsize=10)
    # As much room for a method as in the other panels, also where there are few.
    axes.set_ylim(len(ALL_ARMS) - 0.5, -0.5)
    axes.set_title(f"{SETS[name].title},\nagainst {ood}", fontsize=11)
    axes.set_xlabel("AUROC by u")
    return rows


def _move_names(axes: Axes, is_same: bool) -> None:
    """Leave the names of methods out where they stand beside the panel to the left, else move them inside."""
    if is_same:
        axes.set_yticklabels([])
        return
    for text in axes.get_yticklabels():
        text.set_horizontalalignment("left")
    axes.tick_params(axis="y", length=0, pad=-6)
    axes.grid(False, axis="y")


def _draw_beyond(axes: Axes, means: Mapping[str, Mapping[int, float]], low: float) -> None:
    """Arrows at the left edge for means that lie beyond it, each with its number."""
    shown: dict[int, int] = {}  # how many numbers stand beside an arm
    for variant, found in means.items():
        colour = str(VARIANT_LOOKS[variant]["color"])
        for place, mean in found.items():
            if mean >= low:
                continue
            before = shown.get(place, 0)
            shown[place] = before + 1
            x = low + SPAN * (0.03 + 0.2 * before)
            axes.plot([x], [place], marker="<", markersize=6, color=colour, linestyle="none")
            # Above the row: the range of another variant may lie in it.
            axes.text(x, place - 0.18, f"{mean:.2f}", ha="left", va="bottom", fontsize=8, color=colour)
