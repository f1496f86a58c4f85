# good

cost, gain = np.array([1, 2.5, 4, 7]), np.array([0.7, 0.78, 0.81, 0.82])
fig, ax = plt.subplots(figsize=(4.6, 3.2), layout="constrained")
ax.plot(cost, gain, "o-")
for c, g, n in zip(cost, gain, ("tiny", "small", "base", "large")):
    ax.annotate(n, (c, g), xytext=(4, -11), textcoords="offset points")
ax.set(xlabel="Inference time (ms per row)", ylabel="Accuracy", xlim=(0, 8.5))
