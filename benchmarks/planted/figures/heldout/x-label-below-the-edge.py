# fault: clipped

fig, ax = plt.subplots(figsize=(5, 2))
ax.plot(x, fall())
ax.set_xlabel("Epoch of training", fontsize=12, labelpad=8)
ax.set_ylabel("Loss")
fig.subplots_adjust(bottom=0.1)
