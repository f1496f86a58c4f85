# fault: label

plt.figure(figsize=(4, 3))
plt.scatter(rng.random(30), rng.random(30))
plt.title("Margins")
plt.tight_layout()
plt.savefig(path, dpi=150)
