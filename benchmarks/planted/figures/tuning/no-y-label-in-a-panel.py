# fault: label

fig, (a, b) = plt.subplots(1, 2, figsize=(6, 3), layout="constrained")
a.plot(x, fall())
a.set(xlabel="Epoch", ylabel="Loss")
b.plot(x, 1 - fall())
b.set(xlabel="Epoch", title="Accuracy")
