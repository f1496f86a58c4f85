# good
# seeds: 5

fig, ax = plt.subplots(figsize=(4.8, 2.8), layout="constrained")
ax.errorbar([0.02, 0.01, -0.01, 0.03], range(4), xerr=0.01, fmt="o", capsize=2)
ax.axvline(0, color="grey", lw=0.8)
ax.set_yticks(range(4), ["digits", "wine", "iris", "shapes"])
ax.set_xlabel("Change of accuracy")
