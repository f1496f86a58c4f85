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
        "mixture": ("Temperature and rate", "tab:blue", "^", "--")}
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


def finish(fig, axes, name, title, columns=3):
    handles, labels = [], []
    for ax in axes:
        for h, l in zip(*ax.get_legend_handles_labels()):
            if l not in labels:
                handles.append(h)
                labels.append(l)
    fig.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)))
    fig.suptitle(title, fontsize=10)
    fig.savefig(f"figures/{name}.png", dpi=200)
    plt.close(fig)


def panels(n, height=3.2):
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


def fit_figure(fits):
    for d in [d for d in TITLES if any(k[0] == d for k in fits)]:
        fig, axes = panels(2)
        runs = 0
        for arm in ("tempscale", "mixture"):
            title, colour, marker, style = ARMS[arm]
            mine = {k[2]: v for k, v in fits.items() if k[:2] == (d, arm)}
            if mine:
                runs = max(runs, draw(axes[0], {share(l): [a[0] for a in v] for l, v in mine.items()},
                                      title, colour, marker, style))
        rows = [a for k, v in sorted(fits.items()) if k[:2] == (d, "mixture") for a in v]
        if rows:
            rows = 100 * np.array(rows)
            top = rows[:, [1, 3]].max()
            axes[1].plot([0, top], [0, top], color="black", linewidth=0.8, label="Equal")
            axes[1].plot(rows[:, 3], rows[:, 1], linestyle="none", marker="^", fillstyle="none", color="tab:blue",
                         label="Temperature and rate, each seed and rate")
        axes[0].set_yscale("log")
        axes[0].set_yticks(TICKS)
        axes[0].yaxis.set_major_formatter(FormatStrFormatter("%g"))
        axes[0].yaxis.set_minor_locator(NullLocator())
        axes[0].set_ylim(0.15, 27)
        axes[0].set_xlabel("Wrong calibration labels (%)")
        axes[0].set_ylabel("Fitted temperature (log scale)")
        axes[1].set_xlabel("Share of labels really wrong (%)")
        axes[1].set_ylabel("Fitted rate (%)")
        finish(fig, axes, "fit_" + d, f"{TITLES[d]}: what is fitted" + spread(runs), 2)


def curves_figure(curves):
    sets = [d for d in TITLES if any(k[0] == d for k in curves)]
    if not sets:
        print("no curves")
        return
    fig, axes = panels(len(sets))
    for ax, d in zip(axes, sets):
        key = sorted(k for k in curves if k[0] == d)[0]
        runs = np.stack(curves[key])
        epochs = np.arange(1, runs.shape[2] + 1)
        for row, label, style, colour in ((0, "Training loss with weight penalty", "-", "tab:green"),
                                          (1, "Dev log loss, clean labels", "--", "tab:purple")):
            ax.plot(epochs, runs[:, row].mean(axis=0), style, label=label, color=colour)
            if len(runs) > 1:
                ax.fill_between(epochs, runs[:, row].min(axis=0), runs[:, row].max(axis=0), color=colour, alpha=0.2)
        ax.set_yscale("log")
        ax.set_title(TITLES[d])
        ax.set_xlabel("Epoch")
        ax.set_ylabel("Loss (nats, log scale)")
    band = "" if len(runs) < 2 else f" (mean, range of {len(runs)} seeds)"
    finish(fig, axes, "training", "Shared network, before calibration" + band)


scores = json.load(open("scores.json")) if os.path.exists("scores.json") else []
scores_figure(scores, "log_loss", "Log loss (nats)")
scores_figure(scores, "ece", "Expected calibration error")
fit_figure(load("fit"))
curves_figure(load("curves"))
