# good

fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
ax.bar(["digits", "wine", "iris"], [0.02, -0.01, 0.005], yerr=0.004, capsize=2)
ax.axhline(0, color="black", lw=0.8)
ax.set(xlabel="Dataset", ylabel="Change of accuracy")
