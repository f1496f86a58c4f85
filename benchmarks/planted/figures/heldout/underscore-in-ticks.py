# fault: underscore

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.bar(["plain_arm", "with_mixing"], [1, 2])
ax.set(xlabel="Arm", ylabel="Hits")
