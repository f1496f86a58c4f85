# good

fig = plt.figure(figsize=(4.8, 3)); ax = fig.add_axes((0.15, 0.18, 0.8, 0.75))
ax.step(x, np.sort(rng.random(30)), where="post")
ax.set_xlabel("Budget (GPU hours)")
ax.set_ylabel("Share of runs solved")
