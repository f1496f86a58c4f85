# good
# seeds: 6

fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
ax.violinplot([rng.normal(m, 1, 80) for m in (0, 1, 2)], showmedians=True)
ax.set_xticks([1, 2, 3], ["none", "some", "much"]); ax.set(xlabel="Noise", ylabel="Log odds")
