# good

from matplotlib.collections import LineCollection
p = np.cumsum(rng.normal(size=(60, 2)), axis=0)
fig, ax = plt.subplots(figsize=(4.4, 3.4), layout="constrained")
lines = ax.add_collection(LineCollection(np.stack([p[:-1], p[1:]], axis=1), array=np.arange(59)))
ax.autoscale()
ax.set(xlabel="First weight", ylabel="Second weight")
fig.colorbar(lines, label="Update")
