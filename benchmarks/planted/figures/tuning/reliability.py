# good

c = np.linspace(0.05, 0.95, 10)
fig, ax = plt.subplots(figsize=(3.6, 3.4), layout="constrained")
ax.plot([0, 1], [0, 1], color="grey", ls=":"); ax.plot(c, c ** 1.3, marker="o")
ax.set(xlabel="Confidence", ylabel="Accuracy", xlim=(0, 1), ylim=(0, 1))
