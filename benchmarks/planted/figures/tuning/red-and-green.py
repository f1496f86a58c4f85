# fault: colour

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(x, fall(), color="#b22222", label="Plain")
ax.plot(x, fall(rate=0.3), color="#5a6e1e", label="Method")
ax.set(xlabel="Epoch", ylabel="Loss"); ax.legend()
