# good

fig, grid = plt.subplots(2, 2, figsize=(6.4, 4.8))
for k, ax in enumerate(grid.flat):
    ax.plot(x, fall(seed=k), marker="." if k else "")
    ax.set(title=f"Depth {k}", xlabel="Epoch", ylabel="Log loss")
fig.tight_layout()
