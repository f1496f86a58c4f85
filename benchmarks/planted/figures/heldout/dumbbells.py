# good

fig, ax = plt.subplots(figsize=(4.8, 2.8), layout="constrained")
y = np.arange(4)
a, b = rng.uniform(0.6, 0.7, 4), rng.uniform(0.72, 0.8, 4)
ax.hlines(y, a, b, color="0.7")
ax.scatter(a, y, marker="o", label="before", zorder=3)
ax.scatter(b, y, marker="D", label="after", zorder=3)
ax.set_yticks(y, ["digits", "wine", "iris", "shapes"])
ax.set_xlabel("Accuracy")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
