"""Read results/sweep.log and write results/results.md."""
import re

finals, tried = [], {}
for line in open("results/sweep.log"):
    row = re.match(r"(FINAL )?(\w+) C=(\S+) gamma=(\S+) cv=(\S+)(?: tuned=(\S+) default=(\S+) n=(\d+))?", line)
    if row and row[1]:
        finals.append(row.groups()[1:])
    elif row:
        tried[row[2]] = tried.get(row[2], 0) + 1
with open("results/results.md", "w") as f:
    f.write("| set | C | gamma | cv | tuned | default | n | tried |\n|---|---|---|---|---|---|---|---|\n")
    for row in finals:
        f.write("| " + " | ".join(row) + f" | {tried[row[0]]} |\n")
