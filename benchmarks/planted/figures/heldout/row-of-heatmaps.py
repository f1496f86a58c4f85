# good

fig, row = plt.subplots(1, 3, figsize=(6.6, 2.5), layout="constrained", sharey=True)
for ax, name in zip(row, ("none", "0.2", "0.4")):
    image = ax.pcolormesh(rng.random((5, 6)), vmin=0, vmax=1); ax.set(title=f"noise {name}", xlabel="Depth")
row[0].set_ylabel("Width"); fig.colorbar(image, ax=row, label="Accuracy")
