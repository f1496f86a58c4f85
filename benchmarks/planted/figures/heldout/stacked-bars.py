# good

fig, ax = plt.subplots(figsize=(4.6, 3), layout="constrained"); bottom = np.zeros(3)
for name, colour, hatch in (("right", "#0072B2", ""), ("unsure", "#E69F00", "//"), ("wrong", "#999999", "..")):
    part = rng.integers(5, 20, 3)
    ax.bar(["plain", "mixed", "smooth"], part, bottom=bottom, color=colour, hatch=hatch, label=name)
    bottom += part
ax.set_ylabel("Answers"); ax.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
