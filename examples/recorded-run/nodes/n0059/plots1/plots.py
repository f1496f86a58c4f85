"""Loss curves and reliability diagrams of one experiment, from its saved arrays."""

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
    """Arrays of one quantity: dataset -> level -> arm -> array."""
    found = {}
    for path in sorted(Path("arrays").glob(f"{quantity}__*.npy")):
        _, dataset, arm, level = path.stem.split("__")
        found.setdefault(dataset, {}).setdefault(level, {})[arm] = np.load(path)
    return found


def panels(levels):
    return plt.subplots(1, len(levels), figsize=(5.5, 2.4), sharey=True, squeeze=False, layout="constrained")


def draw_losses(dataset, levels):
    """Dev loss by epoch, one panel a noise rate; the training loss thin beside it."""
    figure, axes = panels(levels)
    for axis, (level, arms) in zip(axes[0], sorted(levels.items()), strict=True):
        for (arm, losses), (colour, _, line) in zip(arms.items(), STYLES, strict=False):
            epochs = np.arange(1, len(losses) + 1)
            axis.plot(epochs, losses[:, 1], color=colour, linestyle=line, label=f"{words(arm)}, dev")
            axis.plot(epochs, losses[:, 0], color=colour, linestyle=line, linewidth=0.7, alpha=0.6,
                      label=f"{words(arm)}, training")
        axis.set_title(f"{words(dataset)}, {level_words(level)}")
        axis.set_ylabel("log loss")
        axis.set_xlabel("epoch")
    save(figure, f"loss_{dataset}")


def draw_reliability(dataset, levels):
    """Accuracy against confidence on the dev part, one panel a noise rate."""
    figure, axes = panels(levels)
    for axis, (level, arms) in zip(axes[0], sorted(levels.items()), strict=True):
        axis.plot([0, 1], [0, 1], color=BLACK, linewidth=0.7, label="perfect calibration")
        for (arm, table), (colour, marker, line) in zip(arms.items(), STYLES, strict=False):
            filled = table[table[:, 2] > 0]
            axis.plot(filled[:, 0], filled[:, 1], color=colour, marker=marker, linestyle=line, markersize=4,
                      label=words(arm))
        axis.set_title(f"{words(dataset)}, {level_words(level)}")
        axis.set_xlabel("confidence")
        axis.set_ylabel("accuracy")
    save(figure, f"reliability_{dataset}")


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
