# fault: legend

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
for marker in "o^s":
    ax.scatter(rng.random(20), rng.random(20), marker=marker)
ax.set(xlabel="Width", ylabel="Depth")
