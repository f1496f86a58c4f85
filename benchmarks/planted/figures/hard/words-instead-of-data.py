# fault: empty

fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
ax.text(0.5, 0.5, "no data")
ax.set(xlabel="Epoch", ylabel="Loss")
