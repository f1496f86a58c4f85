# fault: unit

fig, ax = plt.subplots(figsize=(4, 3), layout="constrained")
ax.loglog([10, 100, 1000], [1, 8, 90], "o-")
ax.set(xlabel="Rows", ylabel="Runtime per fit")
