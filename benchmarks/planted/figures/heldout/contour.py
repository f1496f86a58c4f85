# good

a, b = np.meshgrid(np.linspace(-2, 2, 40), np.linspace(-1, 1, 40))
fig, ax = plt.subplots(figsize=(4.4, 3.2), layout="constrained")
shown = ax.contourf(a, b, a ** 2 + 4 * b ** 2, levels=12)
fig.colorbar(shown, ax=ax, label="Loss")
ax.set(xlabel="First direction", ylabel="Second direction")
