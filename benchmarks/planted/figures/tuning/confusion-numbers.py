# good

table = rng.integers(0, 40, (4, 4)); names = ["cat", "dog", "fox", "owl"]
fig, ax = plt.subplots(figsize=(3.8, 3.5), layout="constrained")
ax.imshow(table, cmap="Blues")
for i in range(4):
    for j in range(4):
        ax.text(j, i, table[i, j], ha="center", va="center", color="white" if table[i, j] > 20 else "black")
ax.set_xticks(range(4), names); ax.set_yticks(range(4), names); ax.set(xlabel="Predicted", ylabel="True")
