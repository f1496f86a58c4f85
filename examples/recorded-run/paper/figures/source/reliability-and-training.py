"""The figures of the paper, from inputs/statistics.json and the arrays of the replicates under inputs/<node>/."""

import json
from pathlib import Path

import numpy as np
from figure_style import bar, colour, half_widths, label_left, legend, look, panels, save, width_of

ARMS = {'baseline': 'cross-entropy', 'method': 'smoothing + temperature'}
LEVELS = {'noise0': 'noise rate 0.0', 'noise20': 'noise rate 0.2', 'noise40': 'noise rate 0.4'}
VALUES = {'noise0': 0.0, 'noise20': 0.2, 'noise40': 0.4}
DATASETS = ['breast_cancer']
ABLATIONS = ['without-clean-dev', 'without-smoothing']
METHOD = "method"
MAIN = DATASETS[0]
FACTOR = "label noise rate"
PRIMARY, PRIMARY_TITLE = "log_loss", "log loss"

STATISTICS = [s for s in json.loads(Path("inputs/statistics.json").read_text()) if s["key"].startswith("test/")]


def statistic(metric, dataset, arm, level):
    """A mean over replicates, or None where nothing was measured."""
    condition = f"{arm}@{level}" if level else arm
    found = [s for s in STATISTICS if (s["name"], s["dataset"], s["condition"]) == (metric, dataset, condition)]
    return found[0] if found else None


def replicates(quantity, dataset, arm, level):
    """The arrays of one quantity, one a replicate."""
    name = "__".join(part for part in (quantity, dataset, arm, level) if part)
    arrays = [np.load(path) for path in sorted(Path("inputs").glob(f"*/**/{name}.npy"))]
    return np.stack([a for a in arrays if a.shape == arrays[0].shape]) if arrays else None


def words(name):
    return name.replace("_", " ").replace("-", " ")


def draw_points(axis, places, entries_of, step=0.03):
    """Means with 95 % intervals against places; arms stand a little apart, so that none covers another."""
    reach = max(places) - min(places) or 1.0
    for k, (arm, title) in enumerate(ARMS.items()):
        found = [(place, entry) for place, entry in zip(places, entries_of(arm), strict=True) if entry]
        if found:
            shift = (k - (len(ARMS) - 1) / 2) * step * reach
            axis.errorbar([place + shift for place, _ in found], [entry["mean"] for _, entry in found],
                          yerr=half_widths([entry for _, entry in found]), label=title, **look(k))


def draw_band(axis, x, values, k, label):
    """Mean over replicates with a band of one standard deviation; values have the shape (replicates, points)."""
    mean, spread = values.mean(axis=0), values.std(axis=0)
    axis.plot(x, mean, markevery=(2 * k, max(1, len(x) // 5)), label=label, **look(k))
    axis.fill_between(x, mean - spread, mean + spread, color=colour(k), alpha=0.2, linewidth=0)


def arm_label(arm):
    return "whole method" if arm == METHOD else ARMS.get(arm, words(arm))


def draw_groups(axis, arms, dataset, levels):
    """The primary metric of several arms in groups by level: means as points with 95 % intervals."""
    step = 0.78 / len(arms)
    for k, arm in enumerate(arms):
        looks = look(list(ARMS).index(arm) if arm in ARMS else len(ARMS) + ABLATIONS.index(arm))
        found = [(place, statistic(PRIMARY, dataset, arm, level)) for place, level in enumerate(levels)]
        found = [(place, entry) for place, entry in found if entry]
        if found:
            axis.errorbar([place + (k - (len(arms) - 1) / 2) * step for place, _ in found],
                          [entry["mean"] for _, entry in found], yerr=half_widths([entry for _, entry in found]),
                          label=arm_label(arm), **(looks | {"linestyle": "none", "markersize": 4.2}))
    for place in range(len(levels) - 1):
        axis.axvline(place + 0.5, color="#BBBBBB", linewidth=0.6)
    axis.grid(axis="x", visible=False)
    axis.set_xlim(-0.5, len(levels) - 0.5)


def ablation(name):
    """The primary metric of the whole method and of its ablations on the main dataset, in groups by level."""
    levels = list(LEVELS) or [""]
    figure, axes = panels(1, 2.3, width=0.8 * width_of(2) if len(levels) > 2 else None)
    draw_groups(axes[0], [METHOD, *ABLATIONS], MAIN, levels)
    axes[0].set_xticks(range(len(levels)), [group_label(level) for level in levels])
    axes[0].set_xlabel(FACTOR if LEVELS else "dataset")
    axes[0].set_ylabel(PRIMARY_TITLE)
    save(figure, name)


def group_label(level):
    value = VALUES.get(level)
    return f"{value:g}" if value is not None else LEVELS.get(level, words(MAIN))


def by_noise(metric, label, name):
    """A metric by noise rate with its 95 % interval, one panel a dataset."""
    places = list(VALUES.values())
    figure, axes = panels(len(DATASETS), 1.85)
    for axis, dataset in zip(axes, DATASETS, strict=True):
        draw_points(axis, places, lambda arm: [statistic(metric, dataset, arm, level) for level in LEVELS])
        axis.set_title(words(dataset))
        axis.set_xticks(places)
        axis.set_ylim(bottom=0)
        axis.set_xlabel(FACTOR)
    label_left(axes, label)
    save(figure, name)


def draw_reliability(axis, level):
    """Accuracy by confidence on the dev part of the main dataset, bins pooled over seeds."""
    axis.plot([0, 1], [0, 1], color="#000000", linewidth=0.7, linestyle=":", marker="", label="perfect calibration")
    for k, (arm, title) in enumerate(ARMS.items()):
        tables = replicates("reliability", MAIN, arm, level)
        if tables is None:
            continue
        count = tables[:, :, 2].sum(axis=0)
        filled = count >= 5  # fewer rows than that say little
        weights = tables[:, filled, 2] / count[filled]
        axis.plot((tables[:, filled, 0] * weights).sum(axis=0), (tables[:, filled, 1] * weights).sum(axis=0),
                  label=title, **look(k))
    axis.set_title(f"reliability, noise {VALUES[level]:g}")
    axis.set_xlim(0, 1.03)
    axis.set_ylim(0, 1.03)
    axis.set_xlabel("confidence")


def draw_by_epoch(axis, level, quantity, column):
    """A quantity by epoch: mean over replicates with a band of one standard deviation."""
    for k, (arm, title) in enumerate(ARMS.items()):
        values = replicates(quantity, MAIN, arm, level)
        if values is not None:
            draw_band(axis, np.arange(1, values.shape[1] + 1), values[:, :, column], k, title)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("epoch")


def reliability_and_memorisation(name):
    """How calibrated the arms are without noise and at the highest rate, and how they learn its wrong labels."""
    figure, axes = panels(3, 2.05)
    first, last = list(LEVELS)[0], list(LEVELS)[-1]
    draw_reliability(axes[0], first)
    draw_reliability(axes[1], last)
    label_left(axes[:2], "accuracy")
    draw_by_epoch(axes[2], last, "fitted", 1)
    axes[2].set_title(f"memorised, noise {VALUES[last]:g}")
    axes[2].set_ylabel("share of wrong labels")
    save(figure, name)


def reliability_and_training(name):
    """How calibrated the arms are without noise and at the highest rate, and their loss on dev while they train."""
    figure, axes = panels(3, 2.05)
    first, last = list(LEVELS)[0], list(LEVELS)[-1]
    draw_reliability(axes[0], first)
    draw_reliability(axes[1], last)
    label_left(axes[:2], "accuracy")
    draw_by_epoch(axes[2], last, "loss", 1)
    axes[2].set_title(f"training, noise {VALUES[last]:g}")
    axes[2].set_ylabel("log loss on dev (nats)")
    save(figure, name)


reliability_and_training("reliability-and-training")
