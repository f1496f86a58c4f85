# fault: legend

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.hist(rng.normal(0, 1, 200), alpha=0.5)
ax.hist(rng.normal(2, 1, 200), alpha=0.5)
ax.set(xlabel="Score", ylabel="Rows")
