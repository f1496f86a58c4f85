# fault: unit

fig, ax = plt.subplots(figsize=(4.2, 3.2), layout="constrained")
fig.colorbar(ax.imshow(rng.random((6, 6))), label="Training time")
ax.set(xlabel="Depth", ylabel="Width")
