import numpy as np

from util import CFG, bar, log, save
from power_tests import all_p, draw


def main():
    rng = np.random.default_rng(CFG["seed"])
    out = {}
    for law in bar(CFG["laws"], "laws"):
        for shift in CFG["shifts"]:
            reject = {}
            for _ in range(CFG["reps"]):
                a, b = draw(law, CFG["n"], rng), draw(law, CFG["n"], rng) + shift
                for name, p in all_p(a, b, CFG["perms"], rng).items():
                    reject[name] = reject.get(name, 0) + (p <= 0.05)
            rates = {k: float(x / CFG["reps"]) for k, x in reject.items()}
            out[f"{law}/{shift}"] = rates
            log(f"law={law} shift={shift}", **rates)
    save(out)


if __name__ == "__main__":
    main()
