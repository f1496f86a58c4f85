# good

fig, ax = plt.subplots(figsize=(4.5, 3.4), layout="constrained")
points = ax.scatter(rng.random(60), rng.random(60), c=rng.random(60))
fig.colorbar(points, label="Confidence")
ax.set(xlabel="Margin before", ylabel="Margin after")
