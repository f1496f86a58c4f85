# fault: font

plt.figure(figsize=(18, 10))
plt.plot(x, fall())
plt.xlabel("Epoch")
plt.ylabel("Loss")
plt.savefig(path, dpi=100)
