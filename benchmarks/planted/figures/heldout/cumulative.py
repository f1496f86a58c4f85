# good

fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
ax.ecdf(rng.normal(size=60), label="plain")
ax.ecdf(rng.normal(0.5, 1, 60), ls="--", label="method")
ax.set(xlabel="Margin", ylabel="Share of rows")
ax.legend()
