# fault: empty

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(x, np.full(30, np.nan))
ax.set(xlabel="Epoch", ylabel="Loss")
