# fault: empty

fig, ax = plt.subplots(figsize=(4, 3), layout="constrained")
ax.bar(["plain", "method"], [np.nan, np.nan])
ax.set(xlabel="Arm", ylabel="Accuracy")
