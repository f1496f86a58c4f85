# good

fig, ax = plt.subplots(figsize=(4.6, 2.8), layout="constrained")
ax.stem(np.arange(8), rng.normal(size=8))
ax.set(xlabel="Lag (steps)", ylabel="Autocorrelation")
