# good

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(x, fall(), marker="o", markevery=5, label="Plain")
ax.plot(x, fall(rate=0.2), marker="s", ls="--", markevery=5, label="Smoothed")
ax.set(xlabel="Epoch", ylabel="Log loss"); ax.legend()
