# fault: clipped

fig, ax = plt.subplots(figsize=(4.4, 3))
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
ax.text(30, 0.3, " the plain arm without smoothing")
fig.savefig(path, dpi=200)
