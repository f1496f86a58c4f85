# fault: overlap

fig, ax = plt.subplots(figsize=(4.8, 3), layout="constrained")
ax.plot(x, fall(), "-", label="plain")
ax.plot(x, fall(rate=0.3), "--", label="smoothed")
ax.set(xlabel="Epoch", ylabel="Loss")
ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.05), ncols=2)
