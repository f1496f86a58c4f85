# fault: covered

fig, ax = plt.subplots(figsize=(3.4, 2.4), layout="constrained")
ax.plot(x, fall(), "-", label="Plain arm on digits")
ax.plot(x, fall(rate=0.3), "--", label="Smoothed on digits")
ax.plot(x, fall(rate=0.05), ":", label="Mixed on digits")
ax.set(xlabel="Epoch", ylabel="Loss"); ax.legend(loc="lower left")
