# fault: legend

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.errorbar([1, 2, 3], [3, 2, 1], yerr=0.1, marker="o")
ax.errorbar([1, 2, 3], [3, 1, 0.5], yerr=0.1, marker="s", ls="--")
ax.set(xlabel="Level", ylabel="Loss")
