# fault: origin

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.bar(["plain", "method"], [0.91, 0.93])
ax.set(xlabel="Arm", ylabel="Accuracy", ylim=(0.9, 0.94))
