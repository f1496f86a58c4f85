# good
# seeds: 5

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
for k, name in enumerate(("Plain", "Method")):
    ax.scatter(np.full(5, k) + np.linspace(-0.1, 0.1, 5), rng.normal(0.8, 0.02, 5), s=14, color="black")
ax.set_xticks([0, 1], ["Plain", "Method"]); ax.set(xlabel="Arm", ylabel="Accuracy", xlim=(-0.5, 1.5))
