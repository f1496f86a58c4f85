# good

a, b = np.meshgrid(np.linspace(-1, 1, 20), np.linspace(-1, 1, 20))
fig, ax = plt.subplots(subplot_kw={"projection": "3d"}, figsize=(4.6, 3.8), layout="constrained")
ax.plot_surface(a, b, a ** 2 + b ** 2, cmap="viridis")
ax.set(xlabel="First direction", ylabel="Second direction", zlabel="Loss")
