# fault: legend

fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
ax.stackplot(x, rng.random((3, 30)) + 1)
ax.set(xlabel="Epoch", ylabel="Share")
