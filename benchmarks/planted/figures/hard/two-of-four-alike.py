# fault: colour

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
for k, colour in enumerate(("#000000", "#E69F00", "#cc3311", "#b5431a")):
    ax.plot(x, fall(rate=0.05 + 0.1 * k), color=colour, label=f"Width {2 ** k}")
ax.set(xlabel="Epoch", ylabel="Loss")
ax.legend()
