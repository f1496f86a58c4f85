# fault: resolution

fig, ax = plt.subplots(figsize=(3, 2), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
fig.savefig(path, dpi=72)
