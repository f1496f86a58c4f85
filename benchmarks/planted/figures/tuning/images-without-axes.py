# good

fig, grid = plt.subplots(2, 4, figsize=(5, 2.8), layout="constrained")
for k, ax in enumerate(grid.flat):
    ax.imshow(rng.random((8, 8)), cmap="gray"); ax.axis("off"); ax.set_title(str(k), fontsize=9)
