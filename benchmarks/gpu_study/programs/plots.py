import json

import matplotlib.pyplot as plt

scores = [one for one in json.load(open("scores.json")) if one["metric"] == "accuracy"]
arms = sorted({one["arm"] for one in scores})
figure, axes = plt.subplots()
axes.bar(arms, [sum(one["value"] for one in scores if one["arm"] == arm)
                / max(1, sum(one["arm"] == arm for one in scores)) for arm in arms])
axes.set_xlabel("arm")
axes.set_ylabel("accuracy on validation")
figure.savefig("figures/accuracy.png")
