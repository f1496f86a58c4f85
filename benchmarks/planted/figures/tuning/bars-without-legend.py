# fault: legend

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.bar(np.arange(3), [1, 2, 3], 0.4, label="plain")
ax.bar(np.arange(3) + 0.4, [2, 2, 3], 0.4, hatch="//", label="method")
ax.set(xlabel="Fold", ylabel="Hits")
