import glob
import json
import os

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FormatStrFormatter, NullLocator

plt.rcParams.update({"font.size": 9})
ARMS = {"uncal": ("No calibration (same at all rates)", "tab:gray", "s", ":"),
        "tempscale": ("Temperature scaling", "tab:orange", "o", "-"),
        "mixture": ("Temperature and rate", "tab:blue", "^", "--"),
        "truerate": ("True rate given", "tab:green", "D", "-.")}
LOW, HIGH = 0.2, 20
TICKS = (0.2, 0.5, 1, 2, 5, 10, 20)
TITLES = {"digits": "Digits", "breast_cancer": "Breast cancer", "wine": "Wine"}


def load(name):
    """Arrays by (dataset, arm, level): a list with one array a run."""
    found = {}
    for path in sorted(glob.glob("arrays/*.npy") + glob.glob("inputs/*/*.npy")):
        bits = os.path.basename(path)[:-4].split("__")
        if len(bits) == 4 and bits[0] == name:
            found.setdefault(tuple(bits[1:]), []).append(np.load(path))
    return found


def share(level):
    return 100 * float(level[1:])


def spread(runs):
    return "" if runs < 2 else f" (mean and SD of {runs} seeds)"


def draw(ax, points, label, colour, marker, style, **more):
    """points: {x: list of values}; mean, and the standard deviation where there are several."""
    xs = sorted(points)
    means = [np.mean(points[x]) for x in xs]
    sds = [np.std(points[x], ddof=1) if len(points[x]) > 1 else 0.0 for x in xs]
    if any(sds):
        ax.errorbar(xs, means, yerr=sds, label=label, color=colour, marker=marker, linestyle=style, capsize=3,
                    fillstyle="none" if marker == "s" else "full", markersize=9 if marker == "s" else 5, **more)
    else:
        ax.plot(xs, means, label=label, color=colour, marker=marker, linestyle=style,
                fillstyle="none" if marker == "s" else "full", markersize=9 if marker == "s" else 5, **more)
    return max(len(points[x]) for x in xs)


def finish(fig, axes, name, title):
    handles, labels = [], []
    for ax in axes:
        for h, l in zip(*ax.get_legend_handles_labels()):
            if l not in labels:
                handles.append(h)
                labels.append(l)
    fig.legend(handles, labels, loc="outside lower center", ncols=min(2, len(labels)))
    fig.suptitle(title, fontsize=10)
    fig.savefig(f"figures/{name}.png", dpi=200)
    plt.close(fig)


def panels(n, height=3.5):
    fig, axes = plt.subplots(1, n, figsize=(7.0, height), layout="constrained", squeeze=False)
    return fig, list(axes[0])


def scores_figure(scores, metric, label):
    sets = [d for d in TITLES if any(s["dataset"] == d and s["metric"] == metric for s in scores)]
    if not sets:
        print("no scores of", metric)
        return
    fig, axes = panels(len(sets))
    runs = 0
    for ax, d in zip(axes, sets):
        for arm, (title, colour, marker, style) in ARMS.items():
            points = {}
            for s in scores:
                if (s["dataset"], s["arm"], s["metric"]) == (d, arm, metric) and np.isfinite(s["value"]):
                    points.setdefault(share(s["level"]), []).append(s["value"])
            if points:
                runs = max(runs, draw(ax, points, title, colour, marker, style))
        ax.set_title(TITLES[d])
        ax.set_xlabel("Wrong labels (%)")
        ax.set_ylabel(label)
        ax.set_ylim(bottom=0)
    finish(fig, axes, "validation_" + metric, "Validation, clean labels" + spread(runs))


def temperature_figure(fits):
    """Fitted temperatures: one mark a run where there are several, else a line, with the bounds."""
    sets = [d for d in TITLES if any(k[0] == d for k in fits)]
    if not sets:
        print("no fits")
        return
    fig, axes = panels(len(sets))
    runs = 0
    for ax, d in zip(axes, sets):
        arms = [a for a in ARMS if a != "uncal" and any(k[:2] == (d, a) for k in fits)]
        for n, arm in enumerate(arms):
            title, colour, marker, _ = ARMS[arm]
            side = 2.5 * (n - (len(arms) - 1) / 2)
            mine = sorted((share(k[2]), [a[0] for a in v]) for k, v in fits.items() if k[:2] == (d, arm))
            runs = max(runs, max(len(v) for _, v in mine))
            ax.plot(np.concatenate([np.full(len(v), x + side) for x, v in mine]), np.concatenate([v for _, v in mine]),
                    linestyle="none", marker=marker, color=colour, fillstyle="none", label=title)
        for y, words in ((LOW, "Bounds of the temperature"), (HIGH, None)):
            ax.axhline(y, color="gray", linestyle=":", linewidth=1, label=words)
        ax.set_yscale("log")
        ax.set_yticks(TICKS)
        ax.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.set_ylim(0.15, 27)
        ax.set_xlim(-6, 46)
        ax.set_title(TITLES[d])
        ax.set_xlabel("Wrong labels (%)")
        ax.set_ylabel("Fitted temperature (log scale)")
    words = "" if runs < 2 else f", each of {runs} seeds"
    finish(fig, axes, "temperatures", "Fitted temperatures" + words)


scores = json.load(open("scores.json")) if os.path.exists("scores.json") else []
scores_figure(scores, "log_loss", "Log loss (nats)")
scores_figure(scores, "ece", "Expected calibration error")
temperature_figure(load("fit"))
