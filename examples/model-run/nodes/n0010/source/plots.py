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


def finish(fig, axes, name, title):
    handles, labels = [], []
    for ax in axes:
        for h, l in zip(*ax.get_legend_handles_labels()):
            if l not in labels:
                handles.append(h)
                labels.append(l)
    fig.legend(handles, labels, loc="outside lower center", ncols=min(3, len(labels)))
    fig.suptitle(title, fontsize=10)
    fig.savefig(f"figures/{name}.png", dpi=200)
    plt.close(fig)


def panels(n, height=3.2):
    fig, axes = plt.subplots(1, n, figsize=(7.0 if n > 1 else 6.0, height), layout="constrained", squeeze=False)
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


def by_dataset(found):
    return [d for d in TITLES if any(k[0] == d for k in found)]


def scale_temperatures(ax):
    ax.set_yscale("log")
    ax.set_yticks(TICKS)
    ax.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_ylim(0.15, 27)


def temperature_figure(redraws):
    """Every fitted temperature on redrawn wrong labels, and the one that clean labels give (of temperature scaling at 0)."""
    sets = by_dataset(redraws)
    if not sets:
        print("no redraws")
        return
    fig, axes = panels(len(sets))
    for ax, d in zip(axes, sets):
        clean = [a[0, 0] for a in redraws.get((d, "tempscale", "r0"), [])]
        for n, value in enumerate(clean):
            ax.axhline(value, color="black", linewidth=0.8, label="Clean labels" if n == 0 else None)
        for arm, side in (("tempscale", -1.5), ("mixture", 1.5)):
            title, colour, marker, _ = ARMS[arm]
            mine = {share(k[2]): np.concatenate([a[:, 0] for a in v]) for k, v in redraws.items() if k[:2] == (d, arm)}
            xs = np.concatenate([np.full(len(v), x + side) for x, v in mine.items()])
            ax.plot(xs, np.concatenate(list(mine.values())), linestyle="none", marker=marker, color=colour,
                    fillstyle="none", label=title)
        scale_temperatures(ax)
        ax.set_xlim(-5, 45)
        ax.set_title(TITLES[d])
        ax.set_xlabel("Wrong labels (%)")
        ax.set_ylabel("Fitted temperature (log scale)")
    finish(fig, axes, "temperatures", "Temperatures fitted on redrawn wrong labels, a mark a draw")


def rate_figure(redraws):
    sets = [d for d in by_dataset(redraws) if any(k[:2] == (d, "mixture") for k in redraws)]
    if not sets:
        print("no redraws of the mixture")
        return
    fig, axes = panels(len(sets))
    for ax, d in zip(axes, sets):
        ends = [0, 0]
        for level, colour, marker in (("r0", "tab:green", "s"), ("r0.2", "tab:purple", "o"), ("r0.4", "tab:red", "^")):
            rows = redraws.get((d, "mixture", level))
            if rows:
                rows = 100 * np.concatenate(rows)
                ends[1] = max(ends[1], rows[:, 1:].max())
                ax.plot(rows[:, 2], rows[:, 1], linestyle="none", marker=marker, color=colour, fillstyle="none",
                        label=f"{share(level):.0f} % wrong on average")
        ax.plot(ends, ends, color="black", linewidth=0.8, label="Equal")
        ax.set_title(TITLES[d])
        ax.set_xlabel("Share really wrong (%)")
        ax.set_ylabel("Fitted rate (%)")
    finish(fig, axes, "rates", "Fitted rate on redrawn wrong labels, a mark a draw")


def surface_figure(surfaces, fits):
    """Where the likelihood of the two parameters is within 1.92 and 5 of its best, at 40 per cent, of the first run."""
    sets = [d for d in TITLES if (d, "mixture", "r0.4") in surfaces]
    if not sets:
        print("no surfaces")
        return
    fig, axes = panels(len(sets))
    for ax, d in zip(axes, sets):
        e, t, loss = surfaces[(d, "mixture", "r0.4")][0]
        ax.contourf(100 * e, t, loss - loss.min(), levels=[0, 1.92, 5, 15], colors=["tab:blue", "lightskyblue", "aliceblue"])
        fit = fits[(d, "mixture", "r0.4")][0]
        ax.plot(100 * fit[1], fit[0], linestyle="none", marker="^", color="black", label="Fitted")
        if (d, "tempscale", "r0") in fits:
            ax.plot(100 * fit[3], fits[(d, "tempscale", "r0")][0][0], linestyle="none", marker="x", color="tab:red",
                    markersize=9, label="True share, temperature of clean labels")
        scale_temperatures(ax)
        ax.set_title(TITLES[d])
        ax.set_xlabel("Rate (%)")
        ax.set_ylabel("Temperature (log scale)")
    finish(fig, axes, "surface", "Likelihood at 40 %: within 1.92, 5, 15 nats of its best")


scores = json.load(open("scores.json")) if os.path.exists("scores.json") else []
scores_figure(scores, "log_loss", "Log loss (nats)")
temperature_figure(load("redraws"))
rate_figure(load("redraws"))
surface_figure(load("surface"), load("fit"))
