# fault: colour

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.bar(np.arange(3), [1, 2, 3], 0.4, color="#8c2d04", label="Plain")
ax.bar(np.arange(3) + 0.4, [2, 2, 3], 0.4, color="#41521f", label="Method")
ax.set(xlabel="Fold", ylabel="Hits"); ax.legend()
