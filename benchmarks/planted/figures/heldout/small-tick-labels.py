# fault: font

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
ax.tick_params(labelsize=4.5)
