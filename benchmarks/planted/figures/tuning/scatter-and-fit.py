# good

fig, ax = plt.subplots(figsize=(4.5, 3.2), layout="constrained")
a = rng.random(40)
ax.scatter(a, 2 * a + 0.2 * rng.normal(size=40), s=12)
ax.plot([0, 1], [0, 2], color="black")
ax.set(xlabel="Noise rate", ylabel="Change of loss")
