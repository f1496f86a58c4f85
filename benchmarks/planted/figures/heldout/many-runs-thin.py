# good
# seeds: 6

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
for s in range(6):
    ax.plot(x, fall(seed=s), color="0.7", lw=0.8)
ax.plot(x, np.mean([fall(seed=s) for s in range(6)], axis=0), color="#0072B2", lw=2, label="mean of 6 runs")
ax.set(xlabel="Epoch", ylabel="Loss")
ax.legend()
