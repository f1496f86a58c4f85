# fault: resolution

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
fig.savefig(path, dpi=60)
