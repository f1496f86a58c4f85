# fault: empty

fig, (a, b) = plt.subplots(1, 2, figsize=(6, 3), layout="constrained")
a.plot(x, fall()); a.set(xlabel="Epoch", ylabel="Loss"); b.set(xlabel="Epoch", ylabel="Loss")
