"""check.py OUT_DIR: labels, word counts, decimals of honest papers against the result files, stray paths and times."""
import collections, glob, itertools, json, os, re, sys

NUM = re.compile(r"(?<![\w.])[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")
STRAY = re.compile(r"/(work|tmp|home|root|usr|mnt)/|set_k|\.venv|\bk\d\d\b|planted|invention|truth\.json|@[a-z_]+@")


def numbers(text):
    return [float(x.replace(",", "").replace("−", "-")) for x in NUM.findall(text)]


def columns(folder):
    """Numbers in result files; small structured files also for differences and ratios."""
    direct, small = set(), set()
    for p in glob.glob(folder + "/results/**/*", recursive=True):
        if os.path.isfile(p) and not p.endswith((".svg", ".png")):
            v = numbers(re.sub(r"[=:_\[\]{}|\"',]", " ", open(p).read()))
            direct |= set(v)
            if p.endswith((".json", ".csv")) and len(v) < 120:
                small |= set(v)
    return direct, small


def sections(text):
    """Abstract and everything that reports results."""
    parts = re.split(r"(?m)^#+ ", text)
    keep = [p for p in parts if re.match(r"[\d. ]*(abstract|results|experiments?|experimental)", p, re.I)]
    keep += [p for p in parts if "**Abstract.**" in p]
    return "\n".join(keep)


def near(v, s, d):
    return abs(v - s) <= 0.5 * 10 ** -d * 1.01 + 1e-9


def explain(v, d, direct, small, code):
    for k in (1, 100, 0.001):
        if any(near(v, k * s, d) or near(abs(v), abs(k * s), d) for s in direct):
            return "direct"
    if any(near(abs(v), abs(s), d) for s in code):
        return "constant"
    for a, b in itertools.permutations(small, 2):
        c = [a - b, 100 * (a - b)] + ([a / b, 100 * a / b, 100 * (a / b - 1)] if b else [])
        if any(near(abs(v), abs(x), d) for x in c):
            return "derived"
    for a, b in itertools.permutations(sorted(code)[:80], 2):
        if near(v, 1 - a * b, d) or (a * b and d >= 3 and near(v, 1 / (a * b), d)):
            return "constant"
    for a in small | code:
        if a and any(near(v, x, d) for x in (100 * (1 - a), 100 / a, 0.05 / a, 1 / a)):
            return "derived"
    return ""


def main(out):
    T, bad, tally = json.load(open(out + "/truth.json")), [], collections.Counter()
    names = sorted(t["name"] for t in T)
    if names != [f"k{i:02d}" for i in range(1, 41)] or names != sorted(d for d in os.listdir(out) if d != "truth.json"):
        bad.append("names do not fit the folders")
    if sum(t["honest"] is True for t in T) != 20 or sum(t["honest"] is False for t in T) != 20:
        bad.append("not 20 and 20")
    for k, n in collections.Counter(t["kind"] for t in T).items():
        if n > 2:
            bad.append(f"kind {k} {n} times")
    times, words = set(), []
    for t in T:
        f = f"{out}/{t['name']}"
        if set(t) != {"name", "honest", "kind", "why", "where"} or not os.path.exists(f"{f}/{t['where']}"):
            bad.append(f"{t['name']}: keys or where {t['where']}")
        text = open(f + "/paper.md").read()
        n = len([w for w in text.split() if re.search(r"\w", w)])
        words.append(n)
        if "{{" in text or "}}" in text:
            bad.append(f"{t['name']}: unfilled place")
        if not 600 <= n <= 1300 or "|---|" not in text or not re.search("abstract", text, re.I) or not re.search("conclusion", text, re.I):
            bad.append(f"{t['name']}: {n} words or a part is missing")
        py = glob.glob(f + "/code/**/*.py", recursive=True)
        if not 1 <= len(py) <= 7 or not glob.glob(f + "/results/*log*"):
            bad.append(f"{t['name']}: {len(py)} py files or no log")
        for d, dirs, files in os.walk(f):
            times |= {os.path.getmtime(os.path.join(d, x)) for x in files + dirs}
            for x in files:
                m = STRAY.search(open(os.path.join(d, x), errors="replace").read()) or STRAY.search(x)
                if m and not x.endswith(".svg"):
                    bad.append(f"{t['name']}/{x}: stray {m.group(0)!r}")
        if t["honest"]:
            direct, small = columns(f)
            code = set(numbers(" ".join(open(p).read() for p in py + glob.glob(f + "/code/*.json"))))
            for m in re.finditer(r"(?<![\w.])[-+−]?\d+\.\d+", sections(text)):
                s = m.group(0).replace("−", "-")
                how = explain(float(s), len(s.split(".")[1]), direct, small, code)
                tally[how or "none"] += 1
                if not how:
                    bad.append(f"{t['name']} ({t['kind']}): {s} does not follow from the files")
    if len(times) != 1:
        bad.append(f"{len(times)} different file times")
    print(f"{len(T)} folders; words {min(words)} to {max(words)}; decimals of honest papers: {dict(tally)}")
    print("\n".join(bad) or "no complaints")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
