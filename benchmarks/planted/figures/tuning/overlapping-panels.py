# fault: overlap

fig, grid = plt.subplots(3, 1, figsize=(4, 3.2))
for ax in grid:
    ax.plot(x, fall()); ax.set(xlabel="Epoch", ylabel="Loss", title="Training")
