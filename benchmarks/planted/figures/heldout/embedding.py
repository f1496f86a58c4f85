# good

fig, ax = plt.subplots(figsize=(4, 3.6), layout="constrained")
for k, (name, marker) in enumerate((("cats", "o"), ("dogs", "^"), ("owls", "s"))):
    ax.scatter(rng.normal(3 * k, 1, 40), rng.normal(2 * k % 3, 1, 40), s=10, marker=marker, label=name)
ax.set(xticks=[], yticks=[], title="Last layer in two dimensions"); ax.legend()
