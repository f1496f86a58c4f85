# fault: overlap

fig, row = plt.subplots(1, 4, figsize=(6, 2.4)); fig.subplots_adjust(bottom=0.22)
for ax in row:
    ax.plot(x, 1000 * fall()); ax.set(xlabel="Epoch", ylabel="Loss")
