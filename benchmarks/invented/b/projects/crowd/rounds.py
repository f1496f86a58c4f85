import numpy as np

from util import CFG, bar, log, save
from aggregate import dawid_skene, majority


def votes_for(truth, rng):
    skill = rng.uniform(CFG["low"], CFG["high"], CFG["workers"])
    bias = rng.integers(0, CFG["classes"], CFG["workers"])
    votes = np.full((len(truth), CFG["workers"]), -1)
    for i, t in enumerate(truth):
        for w in rng.choice(CFG["workers"], CFG["per_item"], replace=False):
            wrong = bias[w] if rng.random() < 0.5 else rng.integers(CFG["classes"])
            votes[i, w] = t if rng.random() < skill[w] else wrong
    return votes


def main():
    out = {"majority": [], "dawid_skene": [], "single": []}
    for seed in bar(CFG["seeds"], "rounds"):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, CFG["classes"], CFG["items"])
        votes = votes_for(truth, rng)
        given = votes >= 0
        out["single"].append(float((votes == truth[:, None])[given].mean()))
        out["majority"].append(float((majority(votes, CFG["classes"])[0] == truth).mean()))
        out["dawid_skene"].append(float((dawid_skene(votes, CFG["classes"], CFG["rounds"]) == truth).mean()))
        log("aggregated", seed=seed, votes=int(given.sum()), **{k: x[-1] for k, x in out.items()})
    save(out)


if __name__ == "__main__":
    main()
