# fault: unit

fig, ax = plt.subplots(figsize=(4, 3), layout="constrained")
ax.hist(rng.gamma(3, 2, 99))
ax.set(xlabel="Latency", ylabel="Requests")
