# good

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.plot(np.linspace(0, 1, 20), fall(20), marker=".")
ax.set_xlabel(r"Penalty $\lambda_1$")
ax.set_ylabel(r"$\Vert w\Vert_2$")
