# fault: empty

fig, grid = plt.subplots(2, 2, figsize=(6, 4.4), layout="constrained")
for ax in grid.flat:
    ax.set(xlabel="Epoch", ylabel="Loss")
for ax in grid.flat[:3]:
    ax.plot(x, fall())
