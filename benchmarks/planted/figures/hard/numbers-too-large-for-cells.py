# fault: overlap

t = rng.random((12, 12))
fig, ax = plt.subplots(figsize=(3.4, 3.2), layout="constrained")
fig.colorbar(ax.imshow(t), label="Share")
for i in range(12):
    for j in range(12):
        ax.text(j, i, f"{t[i, j]:.3f}", ha="center", va="center", fontsize=9)
ax.set(xlabel="Predicted", ylabel="True")
