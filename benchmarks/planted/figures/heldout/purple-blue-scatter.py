# fault: colour

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.scatter(rng.random(30), rng.random(30), color="#7a5cc6", label="Plain")
ax.scatter(rng.random(30), rng.random(30), color="#4868c8", label="Method")
ax.set(xlabel="Width", ylabel="Depth"); ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
