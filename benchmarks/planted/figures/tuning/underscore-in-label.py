# fault: underscore

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="epoch", ylabel="val_loss")
