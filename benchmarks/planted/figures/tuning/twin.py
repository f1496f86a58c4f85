# good

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(x, fall(), color="#0072B2"); ax.set_xlabel("Epoch"); ax.set_ylabel("Log loss", color="#0072B2")
other = ax.twinx()
other.plot(x, 1 - 0.5 * fall(), color="#D55E00", ls="--")
other.set_ylabel("Accuracy", color="#D55E00")
