# good

fig, ax = plt.subplots(figsize=(4.8, 3.2), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
ax.secondary_xaxis("top", functions=(lambda e: 40 * e, lambda u: u / 40)).set_xlabel("Update")
