# fault: crowded

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for k in range(12):
    ax.errorbar([1, 2, 3], rng.random(3), yerr=0.05, marker="os^DvP"[k % 6], ls=("-", "--")[k // 6], label=f"Width {k}")
ax.set(xlabel="Depth", ylabel="Loss"); fig.legend(loc="outside right center", fontsize=7)
