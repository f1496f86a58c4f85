# fault: underscore

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss", title="breast_cancer")
