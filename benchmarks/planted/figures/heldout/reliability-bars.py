# good

c = np.arange(0.05, 1, 0.1)
fig, (top, low) = plt.subplots(2, 1, sharex=True, height_ratios=[3, 1], figsize=(3.6, 4), layout="constrained")
top.bar(c, c ** 1.2, width=0.1, edgecolor="black")
top.plot([0, 1], [0, 1], ls="--", color="grey")
top.set_ylabel("Accuracy")
low.hist(rng.beta(5, 2, 300), bins=np.linspace(0, 1, 11)); low.set(xlabel="Confidence", ylabel="Rows")
