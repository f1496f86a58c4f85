import numpy as np

from util import CFG, bar, log, save
from panel import diff_in_diff, make_panel, synthetic_control


def one_panel(seed):
    rng = np.random.default_rng(seed)
    y = make_panel(rng, CFG["donors"], CFG["periods"], CFG["treat_at"], CFG["effect"])
    est, pre, post = synthetic_control(y, 0, CFG["treat_at"])
    ratios = [post / pre]
    for fake in range(1, CFG["donors"] + 1):  # placebo: pretend that a donor was treated
        _, p, q = synthetic_control(np.delete(y, 0, axis=1), fake - 1, CFG["treat_at"])
        ratios.append(q / p)
    rank = int(sum(x >= ratios[0] for x in ratios))
    return {"seed": seed, "sc": est, "did": diff_in_diff(y, CFG["treat_at"]), "pre_rmspe": pre, "rank": rank}


def main():
    log("simulated panels", n=CFG["panels"], donors=CFG["donors"], effect=CFG["effect"])
    rows = []
    for k in bar(range(CFG["panels"]), "panels"):
        rows.append(one_panel(CFG["seed"] + k))
        log("panel", **rows[-1])
    out = {"panels": rows, "placebo_units": CFG["donors"]}
    for m in ("sc", "did"):
        err = np.array([row[m] for row in rows]) - CFG["effect"]
        out[m] = {"bias": float(err.mean()), "rmse": float(np.sqrt((err ** 2).mean()))}
        log("summary " + m, **out[m])
    p = [row["rank"] / (CFG["donors"] + 1) for row in rows]
    out["rejected"] = int(sum(x <= CFG["level"] + 1e-12 for x in p))
    log("placebo test", rejected=out["rejected"], panels=CFG["panels"])
    save(out)


if __name__ == "__main__":
    main()
