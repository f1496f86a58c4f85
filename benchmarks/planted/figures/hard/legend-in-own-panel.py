# good

fig, row = plt.subplots(1, 3, figsize=(6, 2.6), width_ratios=[2, 2, 1], layout="constrained")
for ax in row[:2]:
    ax.plot(x, fall(), "-", label="plain")
    ax.plot(x, fall(rate=0.3), "--", label="smoothed")
    ax.set(xlabel="Epoch", ylabel="Loss")
row[2].axis("off")
row[2].legend(*row[0].get_legend_handles_labels(), loc="center")
