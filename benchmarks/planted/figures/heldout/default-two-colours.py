# good

plt.figure(figsize=(5, 3.5))
plt.plot(x, fall(), label="Training")
plt.plot(x, fall(low=0.4), label="Validation")
plt.xlabel("Epoch"); plt.ylabel("Cross-entropy"); plt.legend(); plt.tight_layout(); plt.savefig(path, dpi=150)
