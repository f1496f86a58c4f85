# good

fig, grid = plt.subplots(2, 2, sharex=True, sharey=True, figsize=(6, 4), layout="constrained")
for k, ax in enumerate(grid.flat):
    ax.plot(x, fall(seed=k)); ax.set_title(f"Width {2 ** k}")
fig.supxlabel("Epoch"); fig.supylabel("Log loss")
