# good
# seeds: 10

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.boxplot([rng.normal(m, 1, 40) for m in (0, 0.4, 1)], tick_labels=["Plain", "Smoothed", "Mixed"])
ax.set(xlabel="Arm", ylabel="Margin")
