# fault: interval
# seeds: 7

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.bar(["plain", "method"], [0.8, 0.84])
ax.set(xlabel="Arm", ylabel="Accuracy, mean of 7 seeds")
