# fault: font

fig, row = plt.subplots(1, 4, figsize=(22, 5), layout="constrained")
for ax in row:
    ax.plot(x, fall()); ax.set(xlabel="Epoch", ylabel="Loss")
