# fault: grey

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.bar(np.arange(3), [1, 2, 3], 0.4, color="#1f77b4", label="Plain")
ax.bar(np.arange(3) + 0.4, [2, 2, 3], 0.4, color="#b35900", label="Method")
ax.set(xlabel="Fold", ylabel="Hits"); ax.legend()
