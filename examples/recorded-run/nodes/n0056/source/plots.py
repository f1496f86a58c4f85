"""Means and standard deviations over replicates, from the arrays that each of them saved under inputs/."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

BLUE, ORANGE, GREEN, PURPLE, BLACK = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000"
STYLES = [(BLUE, "o", "-"), (ORANGE, "s", "--"), (GREEN, "^", "-."), (PURPLE, "D", ":")]
plt.rcParams.update({
    "font.size": 8, "axes.titlesize": 7.5, "legend.fontsize": 7.5, "legend.frameon": False, "axes.spines.top": False,
    "axes.spines.right": False})


def words(name):
    """A name as a reader wants to see it."""
    return name.replace("_", " ").replace("-", " ")


def level_words(level):
    return f"noise rate {int(level.removeprefix('noise')) / 100:g}"


def load(quantity):
    """Arrays of one quantity, stacked over replicates: dataset -> level -> arm -> array (replicates, ...)."""
    single = {}
    for path in sorted(Path("inputs").glob(f"*/**/{quantity}__*.npy")):
        _, dataset, arm, level = path.stem.split("__")
        single.setdefault((dataset, level, arm), []).append(np.load(path))
    found = {}
    for (dataset, level, arm), arrays in single.items():
        found.setdefault(dataset, {}).setdefault(level, {})[arm] = np.stack(arrays)
    return found


def panels(levels):
    return plt.subplots(1, len(levels), figsize=(5.5, 2.4), sharey=True, squeeze=False, layout="constrained")


def draw_losses(dataset, levels):
    """Mean dev loss by epoch with a band of one standard deviation, one panel a noise rate."""
    figure, axes = panels(levels)
    for axis, (level, arms) in zip(axes[0], sorted(levels.items()), strict=True):
        for (arm, losses), (colour, _, line) in zip(arms.items(), STYLES, strict=False):
            mean, spread = losses[:, :, 1].mean(axis=0), losses[:, :, 1].std(axis=0)
            epochs = np.arange(1, len(mean) + 1)
            axis.plot(epochs, mean, color=colour, linestyle=line, label=f"{words(arm)}, {len(losses)} seeds")
            axis.fill_between(epochs, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)
        axis.set_title(f"{words(dataset)}, {level_words(level)}")
        axis.set_xlabel("epoch")
        axis.set_ylabel("log loss on dev")
    save(figure, f"replicates_loss_{dataset}")


def draw_reliability(dataset, levels):
    """Accuracy by confidence bin over replicates, with a bar of one standard deviation."""
    figure, axes = panels(levels)
    for axis, (level, arms) in zip(axes[0], sorted(levels.items()), strict=True):
        axis.plot([0, 1], [0, 1], color=BLACK, linewidth=0.7, label="perfect calibration")
        for (arm, tables), (colour, marker, line) in zip(arms.items(), STYLES, strict=False):
            tables = np.where(tables[:, :, 2:] > 0, tables, np.nan)  # empty bins say nothing
            filled = ~np.isnan(tables[:, :, 0]).all(axis=0)
            axis.errorbar(np.nanmean(tables[:, filled, 0], axis=0), np.nanmean(tables[:, filled, 1], axis=0),
                          yerr=np.nanstd(tables[:, filled, 1], axis=0), color=colour, marker=marker, linestyle=line,
                          markersize=4, linewidth=1, capsize=2, label=words(arm))
        axis.set_title(f"{words(dataset)}, {level_words(level)}")
        axis.set_xlabel("confidence")
        axis.set_ylabel("accuracy")
    save(figure, f"replicates_reliability_{dataset}")


def save(figure, name):
    """One legend below all panels, where it can cover no data; then the file."""
    handles = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
        axis.label_outer()
    if len(handles) > 1:
        columns = len(handles) if len(handles) < 4 else 2
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)
    figure.savefig(f"figures/{name}.png", dpi=200)
    plt.close(figure)


Path("figures").mkdir(exist_ok=True)
for dataset, levels in load("loss").items():
    draw_losses(dataset, levels)
for dataset, levels in load("reliability").items():
    draw_reliability(dataset, levels)
