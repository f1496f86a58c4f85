# fault: duplicate

for name, title in ((path, "Loss"), (again, "Losses")):
    fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
    ax.plot(x, fall())
    ax.set(xlabel="Epoch", ylabel="Loss", title=title)
    fig.savefig(name, dpi=200)
