# fault: constant

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.plot(x, fall(), "-", label="Plain")
ax.plot(x, np.zeros(30), "--", label="Method")
ax.set(xlabel="Epoch", ylabel="Loss")
ax.legend()
