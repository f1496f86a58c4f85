# fault: colour

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.bar(np.arange(3), [1, 2, 3], 0.4, color="#3366cc", label="Plain")
ax.bar(np.arange(3) + 0.4, [2, 2, 3], 0.4, color="#3a6fd0", label="Method")
ax.set(xlabel="Fold", ylabel="Hits"); ax.legend()
