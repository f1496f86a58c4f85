# fault: font

plt.rcParams["font.size"] = 4
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
