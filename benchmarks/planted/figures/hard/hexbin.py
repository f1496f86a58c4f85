# good

fig, ax = plt.subplots(figsize=(4.4, 3.4), layout="constrained")
shown = ax.hexbin(rng.normal(size=900), rng.normal(size=900), gridsize=20, bins="log")
ax.set(xlabel="Margin before", ylabel="Margin after")
fig.colorbar(shown, label="Rows")
