# fault: overlap

fig, (a, b) = plt.subplots(1, 2, figsize=(5, 2.8), layout="constrained")
for ax, t in ((a, "Loss on the development part of digits"), (b, "Loss on the development part of wine")):
    ax.plot(x, fall()); ax.set(xlabel="Epoch", ylabel="Loss", title=t)
