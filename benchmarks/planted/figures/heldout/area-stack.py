# good

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.stackplot(x, rng.random((3, 30)) + 1, labels=["read", "compute", "write"], colors=["#08306b", "#6baed6", "#deebf7"])
ax.set(xlabel="Node", ylabel="Time (s)")
ax.legend(loc="upper left", ncols=3, framealpha=1)
ax.set_ylim(0, 8)
