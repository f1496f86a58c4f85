# fault: label

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained"); ax.plot(x, fall()); ax.set_ylabel("Loss")
