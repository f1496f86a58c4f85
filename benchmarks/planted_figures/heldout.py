"""The half for the report: written before the lint was tuned, looked at afterwards only."""

from __future__ import annotations

from benchmarks.planted_figures import Case

GOOD: tuple[Case, ...] = (
    Case("step-line", """
fig = plt.figure(figsize=(4.8, 3)); ax = fig.add_axes((0.15, 0.18, 0.8, 0.75))
ax.step(x, np.sort(rng.random(30)), where="post")
ax.set_xlabel("Budget (GPU hours)")
ax.set_ylabel("Share of runs solved")
"""),
    Case("stacked-bars", """
fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained"); bottom = np.zeros(3)
for name, colour, hatch in (("right", "#0072B2", ""), ("unsure", "#E69F00", "//"), ("wrong", "#999999", "..")):
    part = rng.integers(5, 20, 3)
    ax.bar(["plain", "mixed", "smooth"], part, bottom=bottom, color=colour, hatch=hatch, label=name)
    bottom += part
ax.set_ylabel("Answers"); ax.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
"""),
    Case("horizontal-bars", """
fig, ax = plt.subplots(figsize=(4.8, 2.8), layout="constrained")
ax.barh(["without mixing", "without smoothing", "whole method"], [0.71, 0.76, 0.82], xerr=0.01, capsize=2)
ax.set_xlabel("Macro F1")
"""),
    Case("differences", """
fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
ax.bar(["digits", "wine", "iris"], [0.02, -0.01, 0.005], yerr=0.004, capsize=2)
ax.axhline(0, color="black", lw=0.8)
ax.set(xlabel="Dataset", ylabel="Change of accuracy")
"""),
    Case("violins", """
fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
ax.violinplot([rng.normal(m, 1, 80) for m in (0, 1, 2)], showmedians=True)
ax.set_xticks([1, 2, 3], ["none", "some", "much"]); ax.set(xlabel="Noise", ylabel="Log odds")
""", seeds=6),
    Case("error-bars-by-level", """
fig, row = plt.subplots(1, 2, figsize=(6, 2.7), sharey=True, layout="constrained")
for ax, name in zip(row, ("digits", "wine")):
    for k, (arm, style) in enumerate((("plain", "o-"), ("smoothed", "s--"))):
        ax.errorbar([0.0, 0.2, 0.4], rng.uniform(0.2, 0.5, 3), yerr=0.03, fmt=style, capsize=2, label=arm)
    ax.set(title=name, xlabel="Label noise rate")
row[0].set_ylabel("Log loss"); row[1].legend()
""", seeds=5),
    Case("roc", """
f = np.linspace(0, 1, 50); fig, ax = plt.subplots(figsize=(3.5, 3.4), layout="constrained")
ax.plot(f, f ** 0.3, label="Method (area 0.77)")
ax.plot(f, f ** 0.6, ls="--", label="Plain (area 0.63)")
ax.plot(f, f, color="0.6", lw=0.8, ls=":")
ax.set(xlabel="False positive rate", ylabel="True positive rate"); ax.legend(loc="lower right")
"""),
    Case("reliability-bars", """
c = np.arange(0.05, 1, 0.1)
fig, (top, low) = plt.subplots(2, 1, sharex=True, height_ratios=[3, 1], figsize=(3.6, 4), layout="constrained")
top.bar(c, c ** 1.2, width=0.1, edgecolor="black")
top.plot([0, 1], [0, 1], ls="--", color="grey")
top.set_ylabel("Accuracy")
low.hist(rng.beta(5, 2, 300), bins=np.linspace(0, 1, 11)); low.set(xlabel="Confidence", ylabel="Rows")
"""),
    Case("embedding", """
fig, ax = plt.subplots(figsize=(4, 3.6), layout="constrained")
for k, (name, marker) in enumerate((("cats", "o"), ("dogs", "^"), ("owls", "s"))):
    ax.scatter(rng.normal(3 * k, 1, 40), rng.normal(2 * k % 3, 1, 40), s=10, marker=marker, label=name)
ax.set(xticks=[], yticks=[], title="Last layer in two dimensions"); ax.legend()
"""),
    Case("contour", """
a, b = np.meshgrid(np.linspace(-2, 2, 40), np.linspace(-1, 1, 40))
fig, ax = plt.subplots(figsize=(4.4, 3.2), layout="constrained")
shown = ax.contourf(a, b, a ** 2 + 4 * b ** 2, levels=12)
fig.colorbar(shown, ax=ax, label="Loss")
ax.set(xlabel="First direction", ylabel="Second direction")
"""),
    Case("confusion-shares", """
t = rng.dirichlet(np.ones(10), 10)
fig, ax = plt.subplots(figsize=(4.6, 4), layout="constrained")
image = ax.matshow(t, cmap="Greys")
ax.xaxis.set_ticks_position("bottom")
ax.set_xticks(range(10))
ax.set_yticks(range(10))
ax.set_xlabel("Predicted digit")
ax.set_ylabel("True digit")
fig.colorbar(image, ax=ax, label="Share of row")
"""),
    Case("panel-letters", """
fig, row = plt.subplots(1, 2, figsize=(6, 2.6))
fig.subplots_adjust(bottom=0.2, wspace=0.35, left=0.1, right=0.98)
row[0].plot(x, fall(), "k-"); row[1].semilogy(x, fall(low=0.01), "k-")
for ax, letter, y in zip(row, "ab", ("Loss", "Gradient norm")):
    ax.set(xlabel="Update (thousands)", ylabel=y)
    ax.text(-0.2, 1.02, letter, transform=ax.transAxes, weight="bold")
"""),
    Case("pareto", """
cost, gain = np.array([1, 2.5, 4, 7]), np.array([0.7, 0.78, 0.81, 0.82])
fig, ax = plt.subplots(figsize=(4.6, 3.2), layout="constrained")
ax.plot(cost, gain, "o-")
for c, g, n in zip(cost, gain, ("tiny", "small", "base", "large")):
    ax.annotate(n, (c, g), xytext=(4, -11), textcoords="offset points")
ax.set(xlabel="Inference time (ms per row)", ylabel="Accuracy", xlim=(0, 8.5))
"""),
    Case("inset", """
fig, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
small = ax.inset_axes((0.5, 0.5, 0.45, 0.4))
small.plot(x[-8:], fall()[-8:])
small.set_xlabel("Epoch", fontsize=8)
small.set_ylabel("Loss", fontsize=8)
small.tick_params(labelsize=7)
"""),
    Case("many-runs-thin", """
fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
for s in range(6):
    ax.plot(x, fall(seed=s), color="0.7", lw=0.8)
ax.plot(x, np.mean([fall(seed=s) for s in range(6)], axis=0), color="#0072B2", lw=2, label="mean of 6 runs")
ax.set(xlabel="Epoch", ylabel="Loss")
ax.legend()
""", seeds=6),
    Case("default-two-colours", """
plt.figure(figsize=(5, 3.5))
plt.plot(x, fall(), label="Training")
plt.plot(x, fall(low=0.4), label="Validation")
plt.xlabel("Epoch"); plt.ylabel("Cross-entropy"); plt.legend(); plt.tight_layout(); plt.savefig(path, dpi=150)
"""),
    Case("area-stack", """
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.stackplot(x, rng.random((3, 30)) + 1, labels=["read", "compute", "write"], colors=["#08306b", "#6baed6", "#deebf7"])
ax.set(xlabel="Node", ylabel="Time (s)")
ax.legend(loc="upper left", ncols=3, framealpha=1)
ax.set_ylim(0, 8)
"""),
    Case("memory-log", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.semilogx([64, 256, 1024, 4096], [0.3, 0.5, 1.4, 5.2], "o-", base=2)
ax.set(xlabel="Sequence length", ylabel="Peak memory [GiB]")
"""),
    Case("greek", r"""
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.plot(np.linspace(0, 1, 20), fall(20), marker=".")
ax.set_xlabel(r"Penalty $\lambda_1$")
ax.set_ylabel(r"$\Vert w\Vert_2$")
"""),
    Case("row-of-heatmaps", """
fig, row = plt.subplots(1, 3, figsize=(6.6, 2.5), layout="constrained", sharey=True)
for ax, name in zip(row, ("none", "0.2", "0.4")):
    image = ax.pcolormesh(rng.random((5, 6)), vmin=0, vmax=1); ax.set(title=f"noise {name}", xlabel="Depth")
row[0].set_ylabel("Width"); fig.colorbar(image, ax=row, label="Accuracy")
"""),
    Case("stems", """
fig, ax = plt.subplots(figsize=(4.6, 2.8), layout="constrained")
ax.stem(np.arange(8), rng.normal(size=8))
ax.set(xlabel="Lag (steps)", ylabel="Autocorrelation")
"""),
    Case("cumulative", """
fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
ax.ecdf(rng.normal(size=60), label="plain")
ax.ecdf(rng.normal(0.5, 1, 60), ls="--", label="method")
ax.set(xlabel="Margin", ylabel="Share of rows")
ax.legend()
"""),
    Case("dumbbells", """
fig, ax = plt.subplots(figsize=(4.8, 2.8), layout="constrained")
y = np.arange(4)
a, b = rng.uniform(0.6, 0.7, 4), rng.uniform(0.72, 0.8, 4)
ax.hlines(y, a, b, color="0.7")
ax.scatter(a, y, marker="o", label="before", zorder=3)
ax.scatter(b, y, marker="D", label="after", zorder=3)
ax.set_yticks(y, ["digits", "wine", "iris", "shapes"])
ax.set_xlabel("Accuracy")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
"""),
    Case("percent-axis", """
from matplotlib.ticker import PercentFormatter
fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
ax.plot(x, 1 - fall(), "-")
ax.yaxis.set_major_formatter(PercentFormatter(1))
ax.set(xlabel="Epoch", ylabel="Accuracy")
ax.axhline(0.5, ls=":", color="grey")
"""),
)

FAULTY: tuple[Case, ...] = (
    Case("scatter-no-labels", """
plt.figure(figsize=(4, 3))
plt.scatter(rng.random(30), rng.random(30))
plt.title("Margins")
plt.tight_layout()
plt.savefig(path, dpi=150)
""", "label"),
    Case("grid-lower-row-unlabelled", """
fig, grid = plt.subplots(2, 2, figsize=(6, 4.4), layout="constrained")
for k, ax in enumerate(grid.flat):
    ax.plot(x, fall(seed=k)); ax.set_ylabel("Loss"); ax.set_title(f"Depth {k}")
for ax in grid[0]:
    ax.set_xlabel("Epoch")
""", "label"),
    Case("histogram-no-y", """
fig, ax = plt.subplots(figsize=(4, 3), layout="constrained")
ax.hist(rng.normal(size=99))
ax.set_xlabel("Margin")
""", "label"),
    Case("latency", """
fig, ax = plt.subplots(figsize=(4, 3), layout="constrained")
ax.hist(rng.gamma(3, 2, 99))
ax.set(xlabel="Latency", ylabel="Requests")
""", "unit"),
    Case("runtime-by-rows", """
fig, ax = plt.subplots(figsize=(4, 3), layout="constrained")
ax.loglog([10, 100, 1000], [1, 8, 90], "o-")
ax.set(xlabel="Rows", ylabel="Runtime per fit")
""", "unit"),
    Case("histograms-no-legend", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.hist(rng.normal(0, 1, 200), alpha=0.5)
ax.hist(rng.normal(2, 1, 200), alpha=0.5)
ax.set(xlabel="Score", ylabel="Rows")
""", "legend"),
    Case("scatters-no-legend", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
for marker in "o^s":
    ax.scatter(rng.random(20), rng.random(20), marker=marker)
ax.set(xlabel="Width", ylabel="Depth")
""", "legend"),
    Case("error-bars-no-legend", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.errorbar([1, 2, 3], [3, 2, 1], yerr=0.1, marker="o")
ax.errorbar([1, 2, 3], [3, 1, 0.5], yerr=0.1, marker="s", ls="--")
ax.set(xlabel="Level", ylabel="Loss")
""", "legend"),
    Case("legend-beyond-the-edge", """
fig, ax = plt.subplots(figsize=(4.5, 3))
ax.plot(x, fall(), "-", label="The plain arm without smoothing")
ax.plot(x, fall(rate=0.3), "--", label="The arm with smoothing")
ax.set(xlabel="Epoch", ylabel="Loss")
ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
fig.savefig(path, dpi=150)
""", "clipped"),
    Case("barh-long-names", """
fig, ax = plt.subplots(figsize=(4, 2.6))
ax.barh(["without label smoothing", "without temperature", "whole"], [1, 2, 3])
ax.set_xlabel("Hits")
fig.subplots_adjust(bottom=0.2)
""", "clipped"),
    Case("x-label-below-the-edge", """
fig, ax = plt.subplots(figsize=(5, 2))
ax.plot(x, fall())
ax.set_xlabel("Epoch of training", fontsize=12, labelpad=8)
ax.set_ylabel("Loss")
fig.subplots_adjust(bottom=0.1)
""", "clipped"),
    Case("number-ticks-collide", """
fig, ax = plt.subplots(figsize=(3.5, 2.6), layout="constrained")
ax.plot(x * 1000, fall())
ax.set_xticks(np.arange(1000, 30001, 2000))
ax.set(xlabel="Update", ylabel="Loss")
""", "overlap"),
    Case("title-on-title", """
fig, (a, b) = plt.subplots(1, 2, figsize=(5, 2.8), layout="constrained")
for ax, t in ((a, "Loss on the development part of digits"), (b, "Loss on the development part of wine")):
    ax.plot(x, fall()); ax.set(xlabel="Epoch", ylabel="Loss", title=t)
""", "overlap"),
    Case("y-labels-in-neighbours", """
fig, row = plt.subplots(1, 4, figsize=(6, 2.4)); fig.subplots_adjust(bottom=0.22)
for ax in row:
    ax.plot(x, 1000 * fall()); ax.set(xlabel="Epoch", ylabel="Loss")
""", "overlap"),
    Case("empty-among-four", """
fig, grid = plt.subplots(2, 2, figsize=(6, 4.4), layout="constrained")
for ax in grid.flat:
    ax.set(xlabel="Epoch", ylabel="Loss")
for ax in grid.flat[:3]:
    ax.plot(x, fall())
""", "empty"),
    Case("bars-of-nan", """
fig, ax = plt.subplots(figsize=(4, 3), layout="constrained")
ax.bar(["plain", "method"], [np.nan, np.nan])
ax.set(xlabel="Arm", ylabel="Accuracy")
""", "empty"),
    Case("flat-heatmap", """
fig, ax = plt.subplots(figsize=(4, 3.2), layout="constrained")
fig.colorbar(ax.imshow(np.full((5, 5), 0.3)), label="Accuracy")
ax.set(xlabel="Depth", ylabel="Width")
""", "constant"),
    Case("one-flat-of-two", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.plot(x, fall(), "-", label="Plain")
ax.plot(x, np.zeros(30), "--", label="Method")
ax.set(xlabel="Epoch", ylabel="Loss")
ax.legend()
""", "constant"),
    Case("small-tick-labels", """
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
ax.tick_params(labelsize=4.5)
""", "font"),
    Case("wide-default-fonts", """
plt.figure(figsize=(18, 10))
plt.plot(x, fall())
plt.xlabel("Epoch")
plt.ylabel("Loss")
plt.savefig(path, dpi=100)
""", "font"),
    Case("tab-red-green-bars", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.bar(np.arange(3), [1, 2, 3], 0.4, color="#8c2d04", label="Plain")
ax.bar(np.arange(3) + 0.4, [2, 2, 3], 0.4, color="#41521f", label="Method")
ax.set(xlabel="Fold", ylabel="Hits"); ax.legend()
""", "colour"),
    Case("purple-blue-scatter", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.scatter(rng.random(30), rng.random(30), color="#7a5cc6", label="Plain")
ax.scatter(rng.random(30), rng.random(30), color="#4868c8", label="Method")
ax.set(xlabel="Width", ylabel="Depth"); ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
""", "colour"),
    Case("grey-same", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.bar(np.arange(3), [1, 2, 3], 0.4, color="#1f77b4", label="Plain")
ax.bar(np.arange(3) + 0.4, [2, 2, 3], 0.4, color="#b35900", label="Method")
ax.set(xlabel="Fold", ylabel="Hits"); ax.legend()
""", "grey"),
    Case("underscore-in-title", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss", title="breast_cancer")
""", "underscore"),
    Case("underscore-in-ticks", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.bar(["plain_arm", "with_mixing"], [1, 2])
ax.set(xlabel="Arm", ylabel="Hits")
""", "underscore"),
    Case("same-with-another-colour", """
for name, colour in ((path, "#0072B2"), (again, "#D55E00")):
    fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
    ax.plot(x, fall(), color=colour)
    ax.set(xlabel="Epoch", ylabel="Loss")
    fig.savefig(name, dpi=200)
""", "duplicate"),
    Case("same-picture-without-facts", """
from PIL import Image, ImageDraw
for name, text in ((path, "Loss"), (again, "Loss!")):
    image = Image.new("RGB", (1200, 800), "white")
    pen = ImageDraw.Draw(image)
    pen.line([(100, 100), (600, 500), (1100, 300)], fill="blue", width=6)
    pen.text((500, 700), text, fill="black", font_size=40)
    image.save(name)
""", "duplicate"),
    Case("bars-of-seeds-without-spread", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.bar(["plain", "method"], [0.8, 0.84])
ax.set(xlabel="Arm", ylabel="Accuracy, mean of 7 seeds")
""", "interval", seeds=7),
    Case("small-png", """
fig, ax = plt.subplots(figsize=(3, 2), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
fig.savefig(path, dpi=72)
""", "resolution"),
    Case("forty-ticks", """
fig, ax = plt.subplots(figsize=(6.5, 3), layout="constrained")
ax.bar([f"feature {k}" for k in range(40)], rng.random(40))
ax.tick_params(axis="x", rotation=90, labelsize=6)
ax.set(xlabel="Feature", ylabel="Weight")
""", "crowded"),
    Case("twelve-curves", """
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for k in range(12):
    ax.errorbar([1, 2, 3], rng.random(3), yerr=0.05, marker="os^DvP"[k % 6], ls=("-", "--")[k // 6], label=f"Width {k}")
ax.set(xlabel="Depth", ylabel="Loss"); fig.legend(loc="outside right center", fontsize=7)
""", "crowded"),
    Case("barh-from-0.7", """
fig, ax = plt.subplots(figsize=(4.5, 2.6), layout="constrained")
ax.barh(["plain", "method"], [0.75, 0.77])
ax.set(xlabel="Accuracy", ylabel="Arm")
ax.set_xlim(0.7, 0.8)
""", "origin"),
    Case("one-colour", """
fig = plt.figure(figsize=(4, 3)); fig.savefig(path, dpi=150)
""", "blank"),
    Case("cropped-screenshot", """
from PIL import Image, ImageDraw
image = Image.new("RGB", (1400, 900), (250, 250, 250))
pen = ImageDraw.Draw(image)
pen.rectangle([200, -20, 1390, 700], outline="black", width=4)
pen.text((500, 860), "Epochs of training", fill="black", font_size=60)
image.save(path)
""", "border"),
    Case("mesh-without-scale", """
fig, ax = plt.subplots(figsize=(4, 3.2), layout="constrained")
ax.pcolormesh(rng.random((7, 8)))
ax.set(xlabel="Depth", ylabel="Width")
""", "scale"),
    Case("legend-over-curves", """
fig, ax = plt.subplots(figsize=(3.4, 2.4), layout="constrained")
ax.plot(x, fall(), "-", label="Plain arm on digits")
ax.plot(x, fall(rate=0.3), "--", label="Smoothed on digits")
ax.plot(x, fall(rate=0.05), ":", label="Mixed on digits")
ax.set(xlabel="Epoch", ylabel="Loss"); ax.legend(loc="lower left")
""", "covered"),
)
