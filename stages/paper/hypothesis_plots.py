"""Plots of the outcomes of the hypotheses. The program runs this script in a kernel, like a model's plots, on
`inputs/decided.json` (`stages.paper.hypothesis_figures`)."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import fill
from typing import Any

from figure_style import colour, label_left, look, panels, save  # pyright: ignore[reportMissingImports]

FIGURE_DATA: dict[str, Any] = json.loads(Path("inputs/decided.json").read_text())


MAX_LABEL_CHARS = 36
"""Characters per line of an axis label that is as wide as a panel."""


def parts(name: str) -> None:
    """Plot every effect with its interval, in units of its own smallest effect of interest."""
    effects = FIGURE_DATA["parts"]
    figure, (axes,) = panels(1, height=0.7 + 0.32 * len(effects), width=4.4)
    axes.axvspan(-1, 1, color="0.93", zorder=0)
    axes.axvline(0, color="0.4", linewidth=0.8)
    for k, effect in enumerate(reversed(effects)):
        size = effect["smallest"]
        for limit in effect["limits"]:
            axes.plot([limit / size] * 2, [k - 0.4, k + 0.4], color="0.2", linewidth=0.8, linestyle="--")
        axes.errorbar(
            [effect["mean"] / size],
            [k],
            xerr=[[(effect["mean"] - effect["low"]) / size], [(effect["high"] - effect["mean"]) / size]],
            color=colour(0 if effect["confirmatory"] else 1),
            marker="o" if effect["confirmatory"] else "s",
            label="confirmatory" if effect["confirmatory"] else "exploratory",
            capsize=2.5,
            linestyle="none",
        )
    axes.set_yticks(range(len(effects)), [f"{one['label']}: {one['outcome']}" for one in reversed(effects)])
    axes.set_ylim(-0.6, len(effects) - 0.4)
    axes.set_xlabel("effect / smallest effect of interest")
    axes.set_ylabel("hypothesis")
    save(figure, name)


def levels(name: str) -> None:
    """Plot each effect by level, with intervals over seeds."""
    found = FIGURE_DATA["levels"][:3]
    figure, axes = panels(len(found), height=2.0)
    for axis, series in zip(axes, found, strict=True):
        points = series["points"]
        x = [point["value"] for point in points]
        numeric = None not in x
        x = x if numeric else list(range(len(points)))
        mean = [point["mean"] for point in points]
        ends = [
            [m - (m if p["low"] is None else p["low"]) for m, p in zip(mean, points, strict=True)],
            [(m if p["high"] is None else p["high"]) - m for m, p in zip(mean, points, strict=True)],
        ]
        axis.axhline(0, color="0.4", linewidth=0.8)
        if series["smallest"] is not None:  # a slope has another unit
            axis.axhline(series["smallest"], color="0.2", linewidth=0.8, linestyle="--")
        axis.errorbar(x, mean, yerr=ends, capsize=2.5, **look(0))
        if not numeric:
            axis.set_xticks(x, [point["level"] for point in points])
        axis.set_xlabel(fill(FIGURE_DATA["factor"] or "level", MAX_LABEL_CHARS))
        axis.set_title(series["label"])
    label_left(axes, "effect")
    save(figure, name)


def curves(name: str) -> None:
    """Plot the primary metric on validation data over training, with its standard deviation over seeds, for each
    arm."""
    found = FIGURE_DATA["curves"][:3]
    figure, axes = panels(len(found), height=2.0)
    for axis, panel in zip(axes, found, strict=True):
        for k, line in enumerate(panel["lines"]):
            drawn = {**look(k), "markevery": max(1, len(line["step"]) // 6)}
            axis.plot(line["step"], line["mean"], label=line["label"], **drawn)
            axis.fill_between(
                line["step"],
                [m - s for m, s in zip(line["mean"], line["sd"], strict=True)],
                [m + s for m, s in zip(line["mean"], line["sd"], strict=True)],
                color=colour(k),
                alpha=0.18,
                linewidth=0,
            )
        axis.set_xlabel("step")
        axis.set_title(panel["dataset"])
    label_left(axes, FIGURE_DATA["metric"])
    save(figure, name)
