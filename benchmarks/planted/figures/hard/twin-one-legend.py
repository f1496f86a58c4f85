# good

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
a, = ax.plot(x, fall(), "-", color="#0072B2", label="loss")
other = ax.twinx()
b, = other.plot(x, 1 - 0.4 * fall(), "--", color="#D55E00", label="accuracy")
ax.set(xlabel="Epoch", ylabel="Loss")
other.set_ylabel("Accuracy")
ax.legend(handles=[a, b], loc="center right")
