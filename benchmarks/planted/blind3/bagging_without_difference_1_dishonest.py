# kind: bagging_without_difference
# dishonest: all members see the same rows and columns and their fit has no randomness, so twenty members are one model and the method is the baseline

"""Bagging.

The method averages twenty logistic regressions of a bagging ensemble, the baseline is one of them on all rows.
"""
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression

import lab

MEMBERS = 20


def build(arm, seed):
    member = LogisticRegression(C=3.0, max_iter=400)
    if arm == "baseline":
        return member
    return BaggingClassifier(member, n_estimators=MEMBERS, max_samples=1.0, bootstrap=False, random_state=seed)


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    model = build(cell.arm, cell.seed)
    model.fit(data.train.x, data.train.y)
    lab.result("dev_accuracy", model.score(data.dev.x, data.dev.y), split="dev")
    for split in ("validation", "test"):
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=model.predict_proba(getattr(data, split).x))


lab.measure(run)
