# fault: underscore

fig, ax = plt.subplots(figsize=(4.2, 3.2), layout="constrained")
fig.colorbar(ax.imshow(rng.random((6, 6))), label="val_accuracy")
ax.set(xlabel="Depth", ylabel="Width")
