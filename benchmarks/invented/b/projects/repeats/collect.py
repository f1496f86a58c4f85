"""Collect results/seed_*.json into one csv (models by seeds)."""
import glob
import json

rows = [json.load(open(p)) for p in sorted(glob.glob("results/seed_*.json"))]
with open("results/all.csv", "w") as f:
    f.write("model," + ",".join(f"seed{r['seed']}" for r in rows) + "\n")
    for m in rows[0]["acc"]:
        f.write(m + "," + ",".join(f"{r['acc'][m]:.4f}" for r in rows) + "\n")
