# fault: origin

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.bar(np.arange(3), [0.8, 0.82, 0.9], 0.4, label="Plain")
ax.bar(np.arange(3) + 0.4, [0.83, 0.84, 0.9], 0.4, hatch="//", label="Method")
ax.set(xlabel="Fold", ylabel="Accuracy", ylim=(0.5, 1))
ax.legend(ncols=2)
