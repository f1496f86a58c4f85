# fault: constant

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(x, np.full(30, 0.1))
ax.set(xlabel="Epoch", ylabel="Accuracy")
