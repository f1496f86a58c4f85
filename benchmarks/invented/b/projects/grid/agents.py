import time

import numpy as np

from util import CFG, bar, log, save
from gridworld import Cliff


def learn(kind, seed):
    rng = np.random.default_rng(seed)
    env = Cliff(CFG["width"], CFG["height"], CFG["slip"], rng)
    q = np.zeros((CFG["width"] * CFG["height"], 4))
    returns = []

    def act(s):
        return int(rng.integers(4)) if rng.random() < CFG["eps"] else int(q[s].argmax())

    for _ in range(CFG["episodes"]):
        s, total, end, steps = env.reset(), 0.0, False, 0
        a = act(s)
        while not end and steps < CFG["horizon"]:
            s2, r, end = env.step(a)
            a2 = act(s2)
            if kind == "sarsa":
                nxt = q[s2, a2]
            elif kind == "expected":
                nxt = (1 - CFG["eps"]) * q[s2].max() + CFG["eps"] * q[s2].mean()
            else:
                nxt = q[s2].max()
            q[s, a] += CFG["lr"] * (r + (0 if end else nxt) - q[s, a])
            s, a, total, steps = s2, a2, total + r, steps + 1
        returns.append(total)
    return returns


def main():
    start, out = time.time(), {}
    for kind in ("qlearning", "sarsa", "expected"):
        rows = []
        for seed in bar(CFG["seeds"], kind):
            ret = learn(kind, seed)
            rows.append({"seed": seed, "first": float(np.mean(ret[:50])), "last": float(np.mean(ret[-100:]))})
            log("trained", agent=kind, elapsed_s=round(time.time() - start, 2), **rows[-1])
        out[kind] = rows
    out["seconds"] = round(time.time() - start, 2)
    save(out)


if __name__ == "__main__":
    main()
