# fault: font

t = rng.random((12, 12))
fig, ax = plt.subplots(figsize=(5, 4.4), layout="constrained")
ax.imshow(t)
for i in range(12):
    for j in range(12):
        ax.text(j, i, f"{t[i, j]:.2f}", ha="center", va="center", fontsize=4)
ax.set(xlabel="Predicted", ylabel="True")
