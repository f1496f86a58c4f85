# fault: label

fig, ax = plt.subplots(figsize=(4, 3.4), layout="constrained")
image = ax.imshow(rng.random((5, 5)))
fig.colorbar(image, label="Loss")
