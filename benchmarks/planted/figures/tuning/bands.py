# good
# seeds: 5

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
for name, style, rate in (("Plain, 5 seeds", "-", 0.1), ("Smoothed, 5 seeds", "--", 0.2)):
    y = fall(rate=rate); line, = ax.plot(x, y, style, label=name)
    ax.fill_between(x, y - 0.05, y + 0.05, color=line.get_color(), alpha=0.2, lw=0)
ax.set(xlabel="Epoch", ylabel="Log loss"); ax.legend()
