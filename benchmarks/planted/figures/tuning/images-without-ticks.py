# good

fig, grid = plt.subplots(1, 3, figsize=(5, 2), layout="constrained")
for ax, name in zip(grid, ("original", "shifted", "turned")):
    ax.imshow(rng.random((12, 12)), cmap="gray"); ax.set(xticks=[], yticks=[], title=name)
