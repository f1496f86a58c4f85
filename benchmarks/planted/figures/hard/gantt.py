# good

fig, ax = plt.subplots(figsize=(5.2, 2.6), layout="constrained")
for row in range(4):
    ax.broken_barh([(5 * row, 4), (5 * row + 8, 3)], (row - 0.3, 0.6), color="#0072B2")
ax.set_yticks(range(4), ["read", "train", "score", "plot"])
ax.set_xlabel("Wall-clock time (s)")
