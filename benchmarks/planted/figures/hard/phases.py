# good

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(x, fall())
ax.axvspan(1, 8, alpha=0.15)
ax.annotate("warm-up ends", (8, 0.65), xytext=(13, 0.9), arrowprops={"arrowstyle": "->"})
ax.set(xlabel="Epoch", ylabel="Loss")
