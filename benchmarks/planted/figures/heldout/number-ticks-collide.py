# fault: overlap

fig, ax = plt.subplots(figsize=(3.5, 2.6), layout="constrained")
ax.plot(x * 1000, fall())
ax.set_xticks(np.arange(1000, 30001, 2000))
ax.set(xlabel="Update", ylabel="Loss")
