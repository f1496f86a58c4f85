# good

fig, grid = plt.subplots(1, 4, figsize=(6.4, 2.2), layout="constrained")
for ax in grid:
    ax.plot(1e5 * x, fall())
    ax.ticklabel_format(style="plain")
    ax.set(xlabel="Update", ylabel="Loss")
