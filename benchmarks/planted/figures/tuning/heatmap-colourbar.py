# good

fig, ax = plt.subplots(figsize=(4.5, 3.5), layout="constrained")
image = ax.imshow(rng.random((6, 5)), cmap="viridis", origin="lower")
ax.set(xlabel="Depth", ylabel="Width"); fig.colorbar(image, label="Accuracy")
