# fault: duplicate

for name, colour in ((path, "#0072B2"), (again, "#D55E00")):
    fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
    ax.plot(x, fall(), color=colour)
    ax.set(xlabel="Epoch", ylabel="Loss")
    fig.savefig(name, dpi=200)
