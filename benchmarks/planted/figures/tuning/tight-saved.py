# good

fig, ax = plt.subplots(figsize=(5, 3))
ax.bar(["a fairly long name", "another long name", "short"], [1, 2, 3]); ax.tick_params(axis="x", rotation=60)
ax.set(xlabel="Arm", ylabel="Hits"); fig.savefig(path, dpi=200, bbox_inches="tight")
