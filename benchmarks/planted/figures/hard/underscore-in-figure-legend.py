# fault: underscore

fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
ax.plot(x, fall(), "-", label="label_smoothing")
ax.plot(x, fall(rate=0.3), "--", label="plain")
ax.set(xlabel="Epoch", ylabel="Loss")
fig.legend(loc="outside lower center", ncols=2)
