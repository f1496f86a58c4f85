# fault: interval
# seeds: 8

fig, row = plt.subplots(1, 2, figsize=(6, 2.8), layout="constrained")
for ax in row:
    ax.plot(x, fall(), "-", label="plain")
    ax.plot(x, fall(rate=0.2), "--", label="method")
    ax.set(xlabel="Epoch", ylabel="Loss")
row[0].legend()
