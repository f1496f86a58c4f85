# good

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
for k, (name, hatch) in enumerate((("Plain", ""), ("Method", "//"), ("Ablated", ".."))):
    ax.bar(np.arange(3) + 0.25 * k, rng.uniform(0.5, 0.9, 3), 0.23, yerr=0.03, capsize=2, hatch=hatch, label=name)
ax.set_xticks(np.arange(3) + 0.25, ["digits", "wine", "iris"]); ax.set(xlabel="Dataset", ylabel="Accuracy")
ax.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.15), frameon=False)
