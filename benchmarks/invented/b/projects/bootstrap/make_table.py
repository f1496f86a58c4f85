"""Read the stored accuracies and write the table of the paper."""
import json

with open("results/@RES@.json") as f:
    data = json.load(f)


def cell(model, value):
    return f"{value:.2f}"


rows = [["set", "linear", "trees", "blend"]]
for name, row in data.items():
    rows.append([name] + [cell(m, row[m]) for m in ("linear", "trees", "blend")])
with open("results/table.csv", "w") as f:
    f.write("\n".join(",".join(r) for r in rows) + "\n")
print("results/table.csv:", len(rows) - 1, "rows")
