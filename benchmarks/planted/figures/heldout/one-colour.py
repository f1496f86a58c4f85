# fault: blank

fig = plt.figure(figsize=(4, 3)); fig.savefig(path, dpi=150)
