import numpy as np

from util import CFG, bar, log, save


def play(policy, seed):
    """Regret after each step of one simulated game with Bernoulli arms."""
    rng = np.random.default_rng(seed)
    arms = rng.uniform(0.2, 0.8, CFG["arms"])
    wins, tries = np.zeros(CFG["arms"]), np.zeros(CFG["arms"])
    regret = np.zeros(CFG["steps"])
    for t in range(CFG["steps"]):
        if policy == "thompson":
            arm = int(rng.beta(wins + 1, tries - wins + 1).argmax())
        elif tries.min() == 0:
            arm = int(tries.argmin())
        elif policy == "ucb":
            arm = int((wins / tries + np.sqrt(2 * np.log(t + 1) / tries)).argmax())
        else:
            arm = int(rng.integers(CFG["arms"])) if rng.random() < CFG["eps"] else int((wins / tries).argmax())
        tries[arm] += 1
        wins[arm] += rng.random() < arms[arm]
        regret[t] = arms.max() - arms[arm]
    return regret.cumsum()


def main():
    out = {}
    marks = [CFG["steps"] // 10, CFG["steps"] // 2, CFG["steps"]]
    for policy in ("greedy", "ucb", "thompson"):
        curves = np.array([play(policy, CFG["seed"] + i) for i in bar(range(CFG["games"]), policy)])
        out[policy] = {"marks": marks, "mean": [float(curves[:, m - 1].mean()) for m in marks],
                       "final_sd": float(curves[:, -1].std(ddof=1)), "final": [round(float(x), 3) for x in curves[:, -1]]}
        log(policy, games=len(curves), regret=out[policy]["mean"][-1], sd=out[policy]["final_sd"])
    save(out)


if __name__ == "__main__":
    main()
