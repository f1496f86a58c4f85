# fault: clipped

fig, ax = plt.subplots(figsize=(5, 3))
ax.bar(["a rather long name", "another long name", "short"], [1, 2, 3]); ax.tick_params(axis="x", rotation=90)
ax.set(ylabel="Hits")
