# fault: label

fig, ax = plt.subplots(figsize=(4, 3), layout="constrained")
ax.hist(rng.normal(size=99))
ax.set_xlabel("Margin")
