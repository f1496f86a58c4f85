# fault: origin

fig, ax = plt.subplots(figsize=(4.5, 2.6), layout="constrained")
ax.barh(["plain", "method"], [0.75, 0.77])
ax.set(xlabel="Accuracy", ylabel="Arm")
ax.set_xlim(0.7, 0.8)
