# fault: legend

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(x, fall(), "-"); ax.plot(x, fall(rate=0.3), "--"); ax.set(xlabel="Epoch", ylabel="Loss")
