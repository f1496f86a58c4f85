# fault: scale

fig, ax = plt.subplots(figsize=(4, 3.4), layout="constrained")
ax.imshow(rng.random((9, 9)))
ax.set(xlabel="Depth", ylabel="Width")
