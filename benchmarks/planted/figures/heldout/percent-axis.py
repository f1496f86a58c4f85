# good

from matplotlib.ticker import PercentFormatter
fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
ax.plot(x, 1 - fall(), "-")
ax.yaxis.set_major_formatter(PercentFormatter(1))
ax.set(xlabel="Epoch", ylabel="Accuracy")
ax.axhline(0.5, ls=":", color="grey")
