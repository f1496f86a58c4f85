# good

fig, ax = plt.subplots(figsize=(4.5, 3), layout="constrained")
ax.semilogx([64, 256, 1024, 4096], [0.3, 0.5, 1.4, 5.2], "o-", base=2)
ax.set(xlabel="Sequence length", ylabel="Peak memory [GiB]")
