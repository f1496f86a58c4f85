# fault: covered

fig, ax = plt.subplots(figsize=(4, 2.6), layout="constrained")
ax.plot(x, np.sin(x), "-", label="The plain baseline arm")
ax.plot(x, np.cos(x), "--", label="The method with smoothing")
ax.set(xlabel="Epoch", ylabel="Loss"); ax.legend(loc="center", framealpha=1)
