# fault: scale

fig, ax = plt.subplots(figsize=(4, 3.2), layout="constrained")
ax.pcolormesh(rng.random((7, 8)))
ax.set(xlabel="Depth", ylabel="Width")
