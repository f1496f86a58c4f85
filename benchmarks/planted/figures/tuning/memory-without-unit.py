# fault: unit

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.bar(["plain", "method"], [10, 12]); ax.set(xlabel="Arm", ylabel="Peak memory")
