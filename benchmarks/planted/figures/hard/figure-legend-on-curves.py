# fault: covered

fig, ax = plt.subplots(figsize=(4, 2.6), layout="constrained")
ax.plot(x, fall(), "-", label="The plain baseline arm")
ax.plot(x, fall(rate=0.3), "--", label="The method with smoothing")
ax.set(xlabel="Epoch", ylabel="Loss")
fig.legend(loc="lower left", bbox_to_anchor=(0.15, 0.2))
