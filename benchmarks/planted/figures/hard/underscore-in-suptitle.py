# fault: underscore

fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
fig.suptitle("breast_cancer")
