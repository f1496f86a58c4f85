"""The half that the lint was written against."""

from __future__ import annotations

from benchmarks.planted_figures import Case

GOOD: tuple[Case, ...] = (
    Case("single-line", """
fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Log loss (nats)")
"""),
    Case("two-lines-markers", """
fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(x, fall(), marker="o", markevery=5, label="Plain")
ax.plot(x, fall(rate=0.2), marker="s", ls="--", markevery=5, label="Smoothed")
ax.set(xlabel="Epoch", ylabel="Log loss"); ax.legend()
"""),
    Case("shared-grid", """
fig, grid = plt.subplots(2, 2, sharex=True, sharey=True, figsize=(6, 4), layout="constrained")
for k, ax in enumerate(grid.flat):
    ax.plot(x, fall(seed=k)); ax.set_title(f"Width {2 ** k}")
fig.supxlabel("Epoch"); fig.supylabel("Log loss")
"""),
    Case("direct-labels", """
fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
for colour, rate, name in (("#0072B2", 0.1, "plain"), ("#D55E00", 0.3, "smoothed")):
    y = fall(rate=rate, low=rate); ax.plot(x, y, color=colour)
    ax.text(31, y[-1], name, color=colour, va="center")
ax.set(xlabel="Epoch", ylabel="Log loss", xlim=(1, 38))
"""),
    Case("images-without-axes", """
fig, grid = plt.subplots(2, 4, figsize=(5, 2.8), layout="constrained")
for k, ax in enumerate(grid.flat):
    ax.imshow(rng.random((8, 8)), cmap="gray"); ax.axis("off"); ax.set_title(str(k), fontsize=9)
"""),
    Case("images-without-ticks", """
fig, grid = plt.subplots(1, 3, figsize=(5, 2), layout="constrained")
for ax, name in zip(grid, ("original", "shifted", "turned")):
    ax.imshow(rng.random((12, 12)), cmap="gray"); ax.set(xticks=[], yticks=[], title=name)
"""),
    Case("log-log", """
n = np.array([100, 300, 1000, 3000, 10000])
fig, ax = plt.subplots(figsize=(4.5, 3.2), layout="constrained")
ax.loglog(n, 30 / np.sqrt(n), "o-", label="Plain"); ax.loglog(n, 20 / np.sqrt(n), "s--", label="Method")
ax.set(xlabel="Training rows", ylabel="Error rate (%)"); ax.legend()
"""),
    Case("heatmap-colourbar", """
fig, ax = plt.subplots(figsize=(4.5, 3.5), layout="constrained")
image = ax.imshow(rng.random((6, 5)), cmap="viridis", origin="lower")
ax.set(xlabel="Depth", ylabel="Width"); fig.colorbar(image, label="Accuracy")
"""),
    Case("confusion-numbers", """
table = rng.integers(0, 40, (4, 4)); names = ["cat", "dog", "fox", "owl"]
fig, ax = plt.subplots(figsize=(3.8, 3.5), layout="constrained")
ax.imshow(table, cmap="Blues")
for i in range(4):
    for j in range(4):
        ax.text(j, i, table[i, j], ha="center", va="center", color="white" if table[i, j] > 20 else "black")
ax.set_xticks(range(4), names); ax.set_yticks(range(4), names); ax.set(xlabel="Predicted", ylabel="True")
"""),
    Case("two-histograms", """
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.hist(rng.normal(0, 1, 500), bins=30, alpha=0.6, label="Right")
ax.hist(rng.normal(2, 1, 500), bins=30, alpha=0.6, label="Wrong")
ax.set(xlabel="Score", ylabel="Rows"); ax.legend()
"""),
    Case("grouped-bars", """
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
for k, (name, hatch) in enumerate((("Plain", ""), ("Method", "//"), ("Ablated", ".."))):
    ax.bar(np.arange(3) + 0.25 * k, rng.uniform(0.5, 0.9, 3), 0.23, yerr=0.03, capsize=2, hatch=hatch, label=name)
ax.set_xticks(np.arange(3) + 0.25, ["digits", "wine", "iris"]); ax.set(xlabel="Dataset", ylabel="Accuracy")
ax.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.15), frameon=False)
"""),
    Case("bars-of-words", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.bar(["Plain", "Smoothed", "Mixed"], [0.81, 0.84, 0.83], yerr=0.01, capsize=3)
ax.set_ylabel("Accuracy")
"""),
    Case("boxes", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.boxplot([rng.normal(m, 1, 40) for m in (0, 0.4, 1)], tick_labels=["Plain", "Smoothed", "Mixed"])
ax.set(xlabel="Arm", ylabel="Margin")
""", seeds=10),
    Case("bands", """
fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
for name, style, rate in (("Plain, 5 seeds", "-", 0.1), ("Smoothed, 5 seeds", "--", 0.2)):
    y = fall(rate=rate); line, = ax.plot(x, y, style, label=name)
    ax.fill_between(x, y - 0.05, y + 0.05, color=line.get_color(), alpha=0.2, lw=0)
ax.set(xlabel="Epoch", ylabel="Log loss"); ax.legend()
""", seeds=5),
    Case("points-of-every-run", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
for k, name in enumerate(("Plain", "Method")):
    ax.scatter(np.full(5, k) + np.linspace(-0.1, 0.1, 5), rng.normal(0.8, 0.02, 5), s=14, color="black")
ax.set_xticks([0, 1], ["Plain", "Method"]); ax.set(xlabel="Arm", ylabel="Accuracy", xlim=(-0.5, 1.5))
""", seeds=5),
    Case("reliability", """
c = np.linspace(0.05, 0.95, 10)
fig, ax = plt.subplots(figsize=(3.6, 3.4), layout="constrained")
ax.plot([0, 1], [0, 1], color="grey", ls=":"); ax.plot(c, c ** 1.3, marker="o")
ax.set(xlabel="Confidence", ylabel="Accuracy", xlim=(0, 1), ylim=(0, 1))
"""),
    Case("scatter-colours", """
fig, ax = plt.subplots(figsize=(4.5, 3.4), layout="constrained")
points = ax.scatter(rng.random(60), rng.random(60), c=rng.random(60))
fig.colorbar(points, label="Confidence")
ax.set(xlabel="Margin before", ylabel="Margin after")
"""),
    Case("twin", """
fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(x, fall(), color="#0072B2"); ax.set_xlabel("Epoch"); ax.set_ylabel("Log loss", color="#0072B2")
other = ax.twinx()
other.plot(x, 1 - 0.5 * fall(), color="#D55E00", ls="--")
other.set_ylabel("Accuracy", color="#D55E00")
"""),
    Case("turned-ticks", """
fig, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
ax.bar(["no smoothing", "no temperature", "no clean dev", "no mixing", "whole method"], [0.7, 0.75, 0.72, 0.78, 0.8])
ax.tick_params(axis="x", rotation=35); ax.set(xlabel="Variant", ylabel="Accuracy")
"""),
    Case("one-legend-outside", """
fig, row = plt.subplots(1, 3, figsize=(6.5, 2.6), sharey=True, layout="constrained")
for k, ax in enumerate(row):
    a, = ax.plot(x, fall(seed=k), "-"); b, = ax.plot(x, fall(rate=0.3, seed=k), "--")
    ax.set(xlabel="Epoch", title=f"Noise {0.2 * k:.1f}")
row[0].set_ylabel("Log loss"); fig.legend([a, b], ["Plain", "Smoothed"], loc="outside lower center", ncols=2)
"""),
    Case("tight-saved", """
fig, ax = plt.subplots(figsize=(5, 3))
ax.bar(["a fairly long name", "another long name", "short"], [1, 2, 3]); ax.tick_params(axis="x", rotation=60)
ax.set(xlabel="Arm", ylabel="Hits"); fig.savefig(path, dpi=200, bbox_inches="tight")
"""),
    Case("scatter-and-fit", """
fig, ax = plt.subplots(figsize=(4.5, 3.2), layout="constrained")
a = rng.random(40)
ax.scatter(a, 2 * a + 0.2 * rng.normal(size=40), s=12)
ax.plot([0, 1], [0, 2], color="black")
ax.set(xlabel="Noise rate", ylabel="Change of loss")
"""),
    Case("time-with-unit", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.plot([1, 2, 4, 8], [10, 5.4, 3, 1.9], "o-"); ax.set(xlabel="Workers", ylabel="Wall-clock time (s)")
"""),
    Case("small-column", """
fig, ax = plt.subplots(figsize=(3.3, 2.2), layout="constrained")
ax.plot(x, fall())
ax.set_xlabel("Update", fontsize=8)
ax.set_ylabel("Loss", fontsize=8)
ax.tick_params(labelsize=7)
"""),
)

FAULTY: tuple[Case, ...] = (
    Case("no-x-label", """
fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained"); ax.plot(x, fall()); ax.set_ylabel("Loss")
""", "label"),
    Case("no-y-label-in-a-panel", """
fig, (a, b) = plt.subplots(1, 2, figsize=(6, 3), layout="constrained")
a.plot(x, fall())
a.set(xlabel="Epoch", ylabel="Loss")
b.plot(x, 1 - fall())
b.set(xlabel="Epoch", title="Accuracy")
""", "label"),
    Case("heatmap-without-labels", """
fig, ax = plt.subplots(figsize=(4, 3.4), layout="constrained")
image = ax.imshow(rng.random((5, 5)))
fig.colorbar(image, label="Loss")
""", "label"),
    Case("time-without-unit", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.plot([1, 2, 4, 8], [10, 5.4, 3, 1.9], "o-"); ax.set(xlabel="Workers", ylabel="Training time")
""", "unit"),
    Case("memory-without-unit", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.bar(["plain", "method"], [10, 12]); ax.set(xlabel="Arm", ylabel="Peak memory")
""", "unit"),
    Case("lines-without-legend", """
fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(x, fall(), "-"); ax.plot(x, fall(rate=0.3), "--"); ax.set(xlabel="Epoch", ylabel="Loss")
""", "legend"),
    Case("bars-without-legend", """
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.bar(np.arange(3), [1, 2, 3], 0.4, label="plain")
ax.bar(np.arange(3) + 0.4, [2, 2, 3], 0.4, hatch="//", label="method")
ax.set(xlabel="Fold", ylabel="Hits")
""", "legend"),
    Case("clipped-ticks", """
fig, ax = plt.subplots(figsize=(5, 3))
ax.bar(["a rather long name", "another long name", "short"], [1, 2, 3]); ax.tick_params(axis="x", rotation=90)
ax.set(ylabel="Hits")
""", "clipped"),
    Case("clipped-y-label", """
fig, ax = plt.subplots(figsize=(2.4, 2))
ax.plot(x, 1e5 * fall())
ax.set(xlabel="Epoch", ylabel="Sum of squares")
fig.subplots_adjust(left=0.12, bottom=0.25)
""", "clipped"),
    Case("clipped-title", """
fig, ax = plt.subplots(figsize=(4, 3), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
ax.set_title("How the loss on the development part falls with the number of epochs of training on digits")
""", "clipped"),
    Case("overlapping-ticks", """
fig, ax = plt.subplots(figsize=(4, 3), layout="constrained")
ax.bar(["label smoothing", "temperature scaling", "mixing of inputs", "early stopping"], [1, 2, 3, 2])
ax.set(xlabel="Arm", ylabel="Hits")
""", "overlap"),
    Case("overlapping-panels", """
fig, grid = plt.subplots(3, 1, figsize=(4, 3.2))
for ax in grid:
    ax.plot(x, fall()); ax.set(xlabel="Epoch", ylabel="Loss", title="Training")
""", "overlap"),
    Case("overlapping-notes", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
a = np.array([0.50, 0.505, 0.51])
ax.scatter(a, [0.8, 0.801, 0.802])
ax.set(xlabel="Cost (USD)", ylabel="Accuracy")
for k in range(3):
    ax.annotate(f"variant {k}", (a[k], 0.8 + 0.001 * k))
ax.set(xlim=(0, 1), ylim=(0.7, 0.9))
""", "overlap"),
    Case("empty-panel", """
fig, (a, b) = plt.subplots(1, 2, figsize=(6, 3), layout="constrained")
a.plot(x, fall()); a.set(xlabel="Epoch", ylabel="Loss"); b.set(xlabel="Epoch", ylabel="Loss")
""", "empty"),
    Case("nothing-but-nan", """
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(x, np.full(30, np.nan))
ax.set(xlabel="Epoch", ylabel="Loss")
""", "empty"),
    Case("constant-line", """
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(x, np.full(30, 0.1))
ax.set(xlabel="Epoch", ylabel="Accuracy")
""", "constant"),
    Case("tiny-font", """
plt.rcParams["font.size"] = 4
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
""", "font"),
    Case("huge-figure", """
fig, row = plt.subplots(1, 4, figsize=(22, 5), layout="constrained")
for ax in row:
    ax.plot(x, fall()); ax.set(xlabel="Epoch", ylabel="Loss")
""", "font"),
    Case("red-and-green", """
fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(x, fall(), color="#b22222", label="Plain")
ax.plot(x, fall(rate=0.3), color="#5a6e1e", label="Method")
ax.set(xlabel="Epoch", ylabel="Loss"); ax.legend()
""", "colour"),
    Case("shades-of-blue", """
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.bar(np.arange(3), [1, 2, 3], 0.4, color="#3366cc", label="Plain")
ax.bar(np.arange(3) + 0.4, [2, 2, 3], 0.4, color="#3a6fd0", label="Method")
ax.set(xlabel="Fold", ylabel="Hits"); ax.legend()
""", "colour"),
    Case("grey-alike", """
fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(x, fall(), color="#0072B2", label="Plain")
ax.plot(x, fall(rate=0.3), color="#C15400", label="Method")
ax.set(xlabel="Epoch", ylabel="Loss"); ax.legend()
""", "grey"),
    Case("underscore-in-label", """
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="epoch", ylabel="val_loss")
""", "underscore"),
    Case("underscore-in-legend", """
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(x, fall(), "-", label="label_smoothing")
ax.plot(x, fall(rate=0.3), "--", label="plain")
ax.set(xlabel="Epoch", ylabel="Loss")
ax.legend()
""", "underscore"),
    Case("drawn-twice", """
for name, title in ((path, "Loss"), (again, "Losses")):
    fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
    ax.plot(x, fall())
    ax.set(xlabel="Epoch", ylabel="Loss", title=title)
    fig.savefig(name, dpi=200)
""", "duplicate"),
    Case("means-without-spread", """
fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(x, fall(), "-", label="Plain, mean of 5"); ax.plot(x, fall(rate=0.3), "--", label="Method, mean of 5")
ax.set(xlabel="Epoch", ylabel="Loss"); ax.legend()
""", "interval", seeds=5),
    Case("coarse-pixels", """
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
fig.savefig(path, dpi=60)
""", "resolution"),
    Case("fifteen-lines", """
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for k in range(15):
    ax.plot(x, fall(rate=0.02 * (k + 1)), ls=("-", "--", ":", "-.")[k % 4], marker="os^Dv"[k % 5], label=f"Arm {k}")
ax.set(xlabel="Epoch", ylabel="Loss"); ax.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
""", "crowded"),
    Case("bars-from-0.8", """
fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.bar(["plain", "method"], [0.91, 0.93])
ax.set(xlabel="Arm", ylabel="Accuracy", ylim=(0.9, 0.94))
""", "origin"),
    Case("blank-picture", """
from PIL import Image
Image.new("RGB", (900, 600), "white").save(path)
""", "blank"),
    Case("cut-picture", """
from PIL import Image, ImageDraw
image = Image.new("RGB", (1200, 800), "white")
pen = ImageDraw.Draw(image)
pen.line([(0, 100), (600, 500), (1199, 300)], fill="blue", width=6)
pen.text((-20, 400), "Accuracy of the arms", fill="black", font_size=40); image.save(path)
""", "border"),
    Case("heatmap-without-scale", """
fig, ax = plt.subplots(figsize=(4, 3.4), layout="constrained")
ax.imshow(rng.random((9, 9)))
ax.set(xlabel="Depth", ylabel="Width")
""", "scale"),
    Case("legend-on-data", """
fig, ax = plt.subplots(figsize=(4, 2.6), layout="constrained")
ax.plot(x, np.sin(x), "-", label="The plain baseline arm")
ax.plot(x, np.cos(x), "--", label="The method with smoothing")
ax.set(xlabel="Epoch", ylabel="Loss"); ax.legend(loc="center", framealpha=1)
""", "covered"),
)
