# good

fig = plt.figure(figsize=(6.4, 3), layout="constrained")
for sub, name in zip(fig.subfigures(1, 2), ("digits", "wine")):
    ax = sub.subplots()
    ax.plot(x, fall(), "-", label="plain")
    ax.plot(x, fall(rate=0.3), "--", label="smoothed")
    ax.set(xlabel="Epoch", ylabel="Loss")
    ax.legend()
    sub.suptitle(name)
