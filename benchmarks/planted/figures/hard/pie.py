# good

fig, ax = plt.subplots(figsize=(3.6, 3.2), layout="constrained")
ax.pie([40, 35, 25], labels=["right", "unsure", "wrong"], autopct="%d%%")
ax.set_title("Answers")
