# good

fig, row = plt.subplots(1, 3, figsize=(6.5, 2.6), sharey=True, layout="constrained")
for k, ax in enumerate(row):
    a, = ax.plot(x, fall(seed=k), "-"); b, = ax.plot(x, fall(rate=0.3, seed=k), "--")
    ax.set(xlabel="Epoch", title=f"Noise {0.2 * k:.1f}")
row[0].set_ylabel("Log loss"); fig.legend([a, b], ["Plain", "Smoothed"], loc="outside lower center", ncols=2)
