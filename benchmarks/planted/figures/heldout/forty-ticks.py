# fault: crowded

fig, ax = plt.subplots(figsize=(6.5, 3), layout="constrained")
ax.bar([f"feature {k}" for k in range(40)], rng.random(40))
ax.tick_params(axis="x", rotation=90, labelsize=6)
ax.set(xlabel="Feature", ylabel="Weight")
