# good

fig, ax = plt.subplots(subplot_kw={"projection": "polar"}, figsize=(4, 4), layout="constrained")
t = np.linspace(0, 2 * np.pi, 6)
ax.plot(t, [0.7, 0.8, 0.6, 0.9, 0.75, 0.7], "o-")
ax.set_xticks(t[:-1], ["digits", "wine", "iris", "shapes", "cancer"])
ax.set_title("Accuracy by dataset")
