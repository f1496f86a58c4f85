# fault: clipped

fig, ax = plt.subplots(figsize=(4, 3), layout="constrained")
ax.plot(x, fall())
ax.set(xlabel="Epoch", ylabel="Loss")
ax.set_title("How the loss on the development part falls with the number of epochs of training on digits")
