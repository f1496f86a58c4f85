# good

fig, ax = plt.subplots(figsize=(4.6, 3.2), layout="constrained")
g = np.linspace(-4, 6, 100)
for k, name in enumerate(("none", "some", "much")):
    ax.fill_between(g, k, k + 0.9 * np.exp(-((g - k) ** 2)), color="#0072B2", alpha=0.6)
ax.set_yticks(range(3), ["none", "some", "much"])
ax.set(xlabel="Margin", ylabel="Noise")
