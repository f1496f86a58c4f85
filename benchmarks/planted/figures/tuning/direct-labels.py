# good

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
for colour, rate, name in (("#0072B2", 0.1, "plain"), ("#D55E00", 0.3, "smoothed")):
    y = fall(rate=rate, low=rate); ax.plot(x, y, color=colour)
    ax.text(31, y[-1], name, color=colour, va="center")
ax.set(xlabel="Epoch", ylabel="Log loss", xlim=(1, 38))
