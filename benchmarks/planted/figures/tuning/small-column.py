# good

fig, ax = plt.subplots(figsize=(3.3, 2.2), layout="constrained")
ax.plot(x, fall())
ax.set_xlabel("Update", fontsize=8)
ax.set_ylabel("Loss", fontsize=8)
ax.tick_params(labelsize=7)
