# good
# seeds: 5

fig, row = plt.subplots(1, 2, figsize=(6, 2.7), sharey=True, layout="constrained")
for ax, name in zip(row, ("digits", "wine")):
    for k, (arm, style) in enumerate((("plain", "o-"), ("smoothed", "s--"))):
        ax.errorbar([0.0, 0.2, 0.4], rng.uniform(0.2, 0.5, 3), yerr=0.03, fmt=style, capsize=2, label=arm)
    ax.set(title=name, xlabel="Label noise rate")
row[0].set_ylabel("Log loss"); row[1].legend()
