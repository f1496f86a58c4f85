# fault: label

fig, grid = plt.subplots(2, 2, figsize=(6, 4.4), layout="constrained")
for k, ax in enumerate(grid.flat):
    ax.plot(x, fall(seed=k)); ax.set_ylabel("Loss"); ax.set_title(f"Depth {k}")
for ax in grid[0]:
    ax.set_xlabel("Epoch")
