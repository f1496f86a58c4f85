# fault: clipped

fig, ax = plt.subplots(figsize=(4, 2.6))
ax.barh(["without label smoothing", "without temperature", "whole"], [1, 2, 3])
ax.set_xlabel("Hits")
fig.subplots_adjust(bottom=0.2)
