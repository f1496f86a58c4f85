# good

t = rng.dirichlet(np.ones(10), 10)
fig, ax = plt.subplots(figsize=(4.6, 4), layout="constrained")
image = ax.matshow(t, cmap="Greys")
ax.xaxis.set_ticks_position("bottom")
ax.set_xticks(range(10))
ax.set_yticks(range(10))
ax.set_xlabel("Predicted digit")
ax.set_ylabel("True digit")
fig.colorbar(image, ax=ax, label="Share of row")
