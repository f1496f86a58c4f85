# fault: clipped

fig, ax = plt.subplots(figsize=(2.4, 2))
ax.plot(x, 1e5 * fall())
ax.set(xlabel="Epoch", ylabel="Sum of squares")
fig.subplots_adjust(left=0.12, bottom=0.25)
