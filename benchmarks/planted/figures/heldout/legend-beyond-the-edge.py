# fault: clipped

fig, ax = plt.subplots(figsize=(4.5, 3))
ax.plot(x, fall(), "-", label="The plain arm without smoothing")
ax.plot(x, fall(rate=0.3), "--", label="The arm with smoothing")
ax.set(xlabel="Epoch", ylabel="Loss")
ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
fig.savefig(path, dpi=150)
