# good

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.hist(rng.normal(0, 1, 500), bins=30, alpha=0.6, label="Right")
ax.hist(rng.normal(2, 1, 500), bins=30, alpha=0.6, label="Wrong")
ax.set(xlabel="Score", ylabel="Rows"); ax.legend()
