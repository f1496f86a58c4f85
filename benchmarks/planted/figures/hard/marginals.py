# good

fig, grid = plt.subplots(2, 2, figsize=(4.6, 4.4), width_ratios=[4, 1], height_ratios=[1, 4], layout="constrained")
a, b = rng.normal(size=(2, 200))
grid[1, 0].scatter(a, b, s=6)
grid[1, 0].set(xlabel="Margin before", ylabel="Margin after")
grid[0, 0].hist(a, bins=20)
grid[1, 1].hist(b, bins=20, orientation="horizontal")
for ax in (grid[0, 0], grid[1, 1], grid[0, 1]):
    ax.axis("off")
