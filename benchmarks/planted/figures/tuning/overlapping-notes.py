# fault: overlap

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
a = np.array([0.50, 0.505, 0.51])
ax.scatter(a, [0.8, 0.801, 0.802])
ax.set(xlabel="Cost (USD)", ylabel="Accuracy")
for k in range(3):
    ax.annotate(f"variant {k}", (a[k], 0.8 + 0.001 * k))
ax.set(xlim=(0, 1), ylim=(0.7, 0.9))
