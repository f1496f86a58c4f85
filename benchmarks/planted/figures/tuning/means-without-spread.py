# fault: interval
# seeds: 5

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(x, fall(), "-", label="Plain, mean of 5"); ax.plot(x, fall(rate=0.3), "--", label="Method, mean of 5")
ax.set(xlabel="Epoch", ylabel="Loss"); ax.legend()
