# fault: grey

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(x, fall(), color="#0072B2", label="Plain")
ax.plot(x, fall(rate=0.3), color="#C15400", label="Method")
ax.set(xlabel="Epoch", ylabel="Loss"); ax.legend()
