# good

fig, row = plt.subplots(1, 2, figsize=(6, 2.6))
fig.subplots_adjust(bottom=0.2, wspace=0.35, left=0.1, right=0.98)
row[0].plot(x, fall(), "k-"); row[1].semilogy(x, fall(low=0.01), "k-")
for ax, letter, y in zip(row, "ab", ("Loss", "Gradient norm")):
    ax.set(xlabel="Update (thousands)", ylabel=y)
    ax.text(-0.2, 1.02, letter, transform=ax.transAxes, weight="bold")
