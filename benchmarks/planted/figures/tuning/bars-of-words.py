# good

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.bar(["Plain", "Smoothed", "Mixed"], [0.81, 0.84, 0.83], yerr=0.01, capsize=3)
ax.set_ylabel("Accuracy")
