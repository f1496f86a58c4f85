# good

f = np.linspace(0, 1, 50); fig, ax = plt.subplots(figsize=(3.5, 3.4), layout="constrained")
ax.plot(f, f ** 0.3, label="Method (area 0.77)")
ax.plot(f, f ** 0.6, ls="--", label="Plain (area 0.63)")
ax.plot(f, f, color="0.6", lw=0.8, ls=":")
ax.set(xlabel="False positive rate", ylabel="True positive rate"); ax.legend(loc="lower right")
