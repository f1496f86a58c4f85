# fault: crowded

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for k in range(15):
    ax.plot(x, fall(rate=0.02 * (k + 1)), ls=("-", "--", ":", "-.")[k % 4], marker="os^Dv"[k % 5], label=f"Arm {k}")
ax.set(xlabel="Epoch", ylabel="Loss"); ax.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
