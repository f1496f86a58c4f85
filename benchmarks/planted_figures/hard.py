"""Forms that the other two halves do not have, written when the lint was done, to find what it does not see."""

from __future__ import annotations

from benchmarks.planted_figures import Case

GOOD: tuple[Case, ...] = (
    Case("hexbin", """
fig, ax = plt.subplots(figsize=(4.4, 3.4), layout="constrained")
shown = ax.hexbin(rng.normal(size=900), rng.normal(size=900), gridsize=20, bins="log")
ax.set(xlabel="Margin before", ylabel="Margin after")
fig.colorbar(shown, label="Rows")
"""),
    Case("data-frame", """
import pandas as pd
frame = pd.DataFrame({"plain": fall(), "smoothed": fall(rate=0.3)}, index=pd.Index(range(1, 31), name="Epoch"))
ax = frame.plot(figsize=(5, 3.2), style=["-", "--"], ylabel="Loss")
fig = ax.figure
fig.tight_layout()
"""),
    Case("broken-axis", """
fig, (top, low) = plt.subplots(2, 1, sharex=True, figsize=(4.6, 3.4), layout="constrained")
for ax in (top, low):
    ax.plot(x, np.where(x < 5, 10 - x, fall()), "o-", ms=3)
top.set_ylim(5, 10)
low.set_ylim(0, 1.2)
top.spines.bottom.set_visible(False)
low.set_xlabel("Epoch")
fig.supylabel("Loss")
"""),
    Case("radar", """
fig, ax = plt.subplots(subplot_kw={"projection": "polar"}, figsize=(4, 4), layout="constrained")
t = np.linspace(0, 2 * np.pi, 6)
ax.plot(t, [0.7, 0.8, 0.6, 0.9, 0.75, 0.7], "o-")
ax.set_xticks(t[:-1], ["digits", "wine", "iris", "shapes", "cancer"])
ax.set_title("Accuracy by dataset")
"""),
    Case("gantt", """
fig, ax = plt.subplots(figsize=(5.2, 2.6), layout="constrained")
for row in range(4):
    ax.broken_barh([(5 * row, 4), (5 * row + 8, 3)], (row - 0.3, 0.6), color="#0072B2")
ax.set_yticks(range(4), ["read", "train", "score", "plot"])
ax.set_xlabel("Wall-clock time (s)")
"""),
    Case("surface", """
a, b = np.meshgrid(np.linspace(-1, 1, 20), np.linspace(-1, 1, 20))
fig, ax = plt.subplots(subplot_kw={"projection": "3d"}, figsize=(4.6, 3.8), layout="constrained")
ax.plot_surface(a, b, a ** 2 + b ** 2, cmap="viridis")
ax.set(xlabel="First direction", ylabel="Second direction", zlabel="Loss")
"""),
    Case("forest", """
fig, ax = plt.subplots(figsize=(4.8, 2.8), layout="constrained")
ax.errorbar([0.02, 0.01, -0.01, 0.03], range(4), xerr=0.01, fmt="o", capsize=2)
ax.axvline(0, color="grey", lw=0.8)
ax.set_yticks(range(4), ["digits", "wine", "iris", "shapes"])
ax.set_xlabel("Change of accuracy")
""", seeds=5),
    Case("pie", """
fig, ax = plt.subplots(figsize=(3.6, 3.2), layout="constrained")
ax.pie([40, 35, 25], labels=["right", "unsure", "wrong"], autopct="%d%%")
ax.set_title("Answers")
"""),
    Case("marginals", """
fig, grid = plt.subplots(2, 2, figsize=(4.6, 4.4), width_ratios=[4, 1], height_ratios=[1, 4], layout="constrained")
a, b = rng.normal(size=(2, 200))
grid[1, 0].scatter(a, b, s=6)
grid[1, 0].set(xlabel="Margin before", ylabel="Margin after")
grid[0, 0].hist(a, bins=20)
grid[1, 1].hist(b, bins=20, orientation="horizontal")
for ax in (grid[0, 0], grid[1, 1], grid[0, 1]):
    ax.axis("off")
"""),
    Case("twin-one-legend", """
fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
a, = ax.plot(x, fall(), "-", color="#0072B2", label="loss")
other = ax.twinx()
b, = other.plot(x, 1 - 0.4 * fall(), "--", color="#D55E00", label="accuracy")
ax.set(xlabel="Epoch", ylabel="Loss")
other.set_ylabel("Accuracy")
ax.legend(handles=[a, b], loc="center right")
"""),
    Case("legend-in-own-panel", """
fig, row = plt.subplots(1, 3, figsize=(6, 2.6), width_ratios=[2, 2, 1], layout="constrained")
for ax in row[:2]:
    ax.plot(x, fall(), "-", label="plain")
    ax.plot(x, fall(rate=0.3), "--", label="smoothed")
    ax.set(xlabel="Epoch", ylabel="Loss")
row[2].axis("off")
row[2].legend(*row[0].get_legend_handles_labels(), loc="center")
"""),
    Case("dates", """
import datetime
days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=10 * k) for k in range(30)]
fig, ax = plt.subplots(figsize=(5.4, 3), layout="constrained")
ax.plot(days, fall())
ax.set_ylabel("Visits (thousands)")
ax.set_xlabel("Date")
fig.autofmt_xdate()
"""),
    Case("four-panels-tight", """
fig, grid = plt.subplots(2, 2, figsize=(6.4, 4.8))
for k, ax in enumerate(grid.flat):
    ax.plot(x, fall(seed=k), marker="." if k else "")
    ax.set(title=f"Depth {k}", xlabel="Epoch", ylabel="Log loss")
fig.tight_layout()
"""),
    Case("subfigures", """
fig = plt.figure(figsize=(6.4, 3), layout="constrained")
for sub, name in zip(fig.subfigures(1, 2), ("digits", "wine")):
    ax = sub.subplots()
    ax.plot(x, fall(), "-", label="plain")
    ax.plot(x, fall(rate=0.3), "--", label="smoothed")
    ax.set(xlabel="Epoch", ylabel="Loss")
    ax.legend()
    sub.suptitle(name)
"""),
    Case("path-by-step", """
from matplotlib.collections import LineCollection
p = np.cumsum(rng.normal(size=(60, 2)), axis=0)
fig, ax = plt.subplots(figsize=(4.4, 3.4), layout="constrained")
lines = ax.add_collection(LineCollection(np.stack([p[:-1], p[1:]], axis=1), array=np.arange(59)))
ax.autoscale()
ax.set(xlabel="First weight", ylabel="Second weight")
fig.colorbar(lines, label="Update")
"""),
    Case("phases", """
fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(x, fall())
ax.axvspan(1, 8, alpha=0.15)
ax.annotate("warm-up ends", (8, 0.65), xytext=(13, 0.9), arrowprops={"arrowstyle": "->"})
ax.set(xlabel="Epoch", ylabel="Loss")
"""),
    Case("second-axis", """
fig, ax = plt.subplots(figsize=(4.8, 3.2), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
ax.secondary_xaxis("top", functions=(lambda e: 40 * e, lambda u: u / 40)).set_xlabel("Update")
"""),
    Case("ridges", """
fig, ax = plt.subplots(figsize=(4.6, 3.2), layout="constrained")
g = np.linspace(-4, 6, 100)
for k, name in enumerate(("none", "some", "much")):
    ax.fill_between(g, k, k + 0.9 * np.exp(-((g - k) ** 2)), color="#0072B2", alpha=0.6)
ax.set_yticks(range(3), ["none", "some", "much"])
ax.set(xlabel="Margin", ylabel="Noise")
"""),
    Case("crowded-panel-ticks", """
fig, grid = plt.subplots(1, 4, figsize=(6.4, 2.2), layout="constrained")
for ax in grid:
    ax.plot(1e5 * x, fall())
    ax.ticklabel_format(style="plain")
    ax.set(xlabel="Update", ylabel="Loss")
"""),
)

FAULTY: tuple[Case, ...] = (
    Case("legend-on-x-label", """
fig, ax = plt.subplots(figsize=(4.8, 3), layout="constrained")
ax.plot(x, fall(), "-", label="plain")
ax.plot(x, fall(rate=0.3), "--", label="smoothed")
ax.set(xlabel="Epoch", ylabel="Loss")
ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.05), ncols=2)
""", "overlap"),
    Case("numbers-too-large-for-cells", """
t = rng.random((12, 12))
fig, ax = plt.subplots(figsize=(3.4, 3.2), layout="constrained")
fig.colorbar(ax.imshow(t), label="Share")
for i in range(12):
    for j in range(12):
        ax.text(j, i, f"{t[i, j]:.3f}", ha="center", va="center", fontsize=9)
ax.set(xlabel="Predicted", ylabel="True")
""", "overlap"),
    Case("note-beyond-the-edge", """
fig, ax = plt.subplots(figsize=(4.4, 3))
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
ax.text(30, 0.3, " the plain arm without smoothing")
fig.savefig(path, dpi=200)
""", "clipped"),
    Case("underscore-at-colour-bar", """
fig, ax = plt.subplots(figsize=(4.2, 3.2), layout="constrained")
fig.colorbar(ax.imshow(rng.random((6, 6))), label="val_accuracy")
ax.set(xlabel="Depth", ylabel="Width")
""", "underscore"),
    Case("underscore-in-suptitle", """
fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
fig.suptitle("breast_cancer")
""", "underscore"),
    Case("underscore-in-figure-legend", """
fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
ax.plot(x, fall(), "-", label="label_smoothing")
ax.plot(x, fall(rate=0.3), "--", label="plain")
ax.set(xlabel="Epoch", ylabel="Loss")
fig.legend(loc="outside lower center", ncols=2)
""", "underscore"),
    Case("no-label-on-z", """
a, b = np.meshgrid(np.linspace(-1, 1, 20), np.linspace(-1, 1, 20))
fig, ax = plt.subplots(subplot_kw={"projection": "3d"}, figsize=(4.6, 3.8), layout="constrained")
ax.plot_surface(a, b, a ** 2 + b ** 2)
ax.set(xlabel="First direction", ylabel="Second direction")
""", "label"),
    Case("same-on-a-log-scale", """
for name, scale in ((path, "linear"), (again, "log")):
    fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
    ax.plot(x, fall())
    ax.set(xlabel="Epoch", ylabel="Loss", yscale=scale)
    fig.savefig(name, dpi=200)
""", "duplicate"),
    Case("two-of-four-alike", """
fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
for k, colour in enumerate(("#000000", "#E69F00", "#cc3311", "#b5431a")):
    ax.plot(x, fall(rate=0.05 + 0.1 * k), color=colour, label=f"Width {2 ** k}")
ax.set(xlabel="Epoch", ylabel="Loss")
ax.legend()
""", "colour"),
    Case("tiny-cell-numbers", """
t = rng.random((12, 12))
fig, ax = plt.subplots(figsize=(5, 4.4), layout="constrained")
ax.imshow(t)
for i in range(12):
    for j in range(12):
        ax.text(j, i, f"{t[i, j]:.2f}", ha="center", va="center", fontsize=4)
ax.set(xlabel="Predicted", ylabel="True")
""", "font"),
    Case("words-instead-of-data", """
fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
ax.text(0.5, 0.5, "no data")
ax.set(xlabel="Epoch", ylabel="Loss")
""", "empty"),
    Case("groups-from-half", """
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.bar(np.arange(3), [0.8, 0.82, 0.9], 0.4, label="Plain")
ax.bar(np.arange(3) + 0.4, [0.83, 0.84, 0.9], 0.4, hatch="//", label="Method")
ax.set(xlabel="Fold", ylabel="Accuracy", ylim=(0.5, 1))
ax.legend(ncols=2)
""", "origin"),
    Case("figure-legend-on-curves", """
fig, ax = plt.subplots(figsize=(4, 2.6), layout="constrained")
ax.plot(x, fall(), "-", label="The plain baseline arm")
ax.plot(x, fall(rate=0.3), "--", label="The method with smoothing")
ax.set(xlabel="Epoch", ylabel="Loss")
fig.legend(loc="lower left", bbox_to_anchor=(0.15, 0.2))
""", "covered"),
    Case("time-at-colour-bar", """
fig, ax = plt.subplots(figsize=(4.2, 3.2), layout="constrained")
fig.colorbar(ax.imshow(rng.random((6, 6))), label="Training time")
ax.set(xlabel="Depth", ylabel="Width")
""", "unit"),
    Case("curves-of-means-in-panels", """
fig, row = plt.subplots(1, 2, figsize=(6, 2.8), layout="constrained")
for ax in row:
    ax.plot(x, fall(), "-", label="plain")
    ax.plot(x, fall(rate=0.2), "--", label="method")
    ax.set(xlabel="Epoch", ylabel="Loss")
row[0].legend()
""", "interval", seeds=8),
    Case("unnamed-areas", """
fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
ax.stackplot(x, rng.random((3, 30)) + 1)
ax.set(xlabel="Epoch", ylabel="Share")
""", "legend"),
)
