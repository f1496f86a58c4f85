# good

fig, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
small = ax.inset_axes((0.5, 0.5, 0.45, 0.4))
small.plot(x[-8:], fall()[-8:])
small.set_xlabel("Epoch", fontsize=8)
small.set_ylabel("Loss", fontsize=8)
small.tick_params(labelsize=7)
