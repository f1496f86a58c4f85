# good

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.plot([1, 2, 4, 8], [10, 5.4, 3, 1.9], "o-"); ax.set(xlabel="Workers", ylabel="Wall-clock time (s)")
