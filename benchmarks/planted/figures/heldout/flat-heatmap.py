# fault: constant

fig, ax = plt.subplots(figsize=(4, 3.2), layout="constrained")
fig.colorbar(ax.imshow(np.full((5, 5), 0.3)), label="Accuracy")
ax.set(xlabel="Depth", ylabel="Width")
