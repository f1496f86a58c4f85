# fault: duplicate

for name, scale in ((path, "linear"), (again, "log")):
    fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
    ax.plot(x, fall())
    ax.set(xlabel="Epoch", ylabel="Loss", yscale=scale)
    fig.savefig(name, dpi=200)
