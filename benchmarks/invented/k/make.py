"""Write a labelled set of small papers: make.py OUT_DIR [--seed N] [--only BASE]. See README.md."""
import argparse, csv, glob, json, os, random, re, resource, shutil, statistics, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
SKIP_DIRS = ("__pycache__", ".pytest_cache")


def read_base(path):
    """A base is one text file: sections that begin with '#### name'."""
    parts, name = {}, None
    for line in open(path):
        if line.startswith("#### "):
            name = line[5:].strip()
            parts[name] = ""
        elif name:
            parts[name] += line
    return parts


def variants(parts, base):
    """The section 'variants' calls V(...) once for each folder that the base gives."""
    out = []

    def V(kind, honest, why, where, P=None, E=(), files=None, drop=(), cmds=None, post=None, late=None, paper=()):
        out.append(dict(base=base, kind=kind, honest=honest, why=why, where=where, P=P or {}, E=E, files=files or {},
                        drop=drop, cmds=cmds, post=post, late=late, paper=paper))
    exec(parts["variants"], {"V": V, "parts": parts, "json": json, "os": os, "re": re, "shutil": shutil, "random": random, "csv": csv})
    return out


def fill(text, P):
    for _ in range(2):
        for k, v in P.items():
            text = text.replace(f"@{k}@", str(v))
    left = re.search(r"@[a-z_]+@", text)
    assert not left, left
    return text


def air_code(t):
    """Bases are stored without blank lines; put them back as a formatter would."""
    out, prev, first = [], "", True
    for line in t.strip("\n").split("\n"):
        top = line[:1] not in (" ", ")", "]", "}", "'", "") and not re.match(r"(else|elif|except|finally)\b", line)
        begins = re.match(r"(def|class|@\w|if __name__)", line)
        if out and top and prev and not prev.startswith(("@", "#")):
            if begins or (prev[:1] == " " and first):
                out += ["", ""]
            elif re.match(r"(import|from) ", prev) and not re.match(r"(import|from) ", line):
                out += [""]
        elif re.match(r"    def ", line) and not prev.startswith(("class", "    @")):
            out += [""]
        if begins:
            first = True
        elif top:
            first = False
        out.append(line)
        prev = line
    return "\n".join(out)


def air_paper(t):
    lines, out = t.strip("\n").split("\n"), []
    table = lambda x: x.startswith("|") or x == "{{table}}"
    for a, b in zip([""] + lines, lines):
        out += ([] if table(a) and table(b) else [""]) + [b]
    return "\n".join(out)


def load_results(folder):
    R = {}
    for p in sorted(glob.glob(folder + "/results/**/*", recursive=True)):
        stem, ext = os.path.splitext(os.path.relpath(p, folder + "/results"))
        if ext == ".json":
            R[stem] = json.load(open(p))
        elif ext == ".csv":
            rows = list(csv.DictReader(open(p)))
            for r in rows:
                for k, v in r.items():
                    try:
                        r[k] = float(v)
                    except (TypeError, ValueError):
                        pass
            R[stem] = rows
        elif os.path.isfile(p) and ext in (".txt", ".log", ".jsonl", ".md"):
            R[stem + ext if stem in R else stem] = open(p).read()
    return R


def render(text, env):
    def one(m):
        expr, fmt = m.group(1), ""
        if "|" in expr and re.search(r"\|([+,]?\d*\.?\d*[fdg%e])$", expr):
            expr, fmt = expr.rsplit("|", 1)
        v = eval(expr.strip(), env)
        return format(v, fmt) if fmt else str(v)
    return re.sub(r"\{\{(.+?)\}\}", one, text)


def shell(cmd, folder):
    env = {k: v for k, v in os.environ.items() if k in ("HOME", "LANG", "TMPDIR")}
    env.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", PYTHONHASHSEED="0",
               MPLBACKEND="Agg", PATH=os.path.dirname(sys.executable) + ":/usr/bin:/bin")
    r = subprocess.run(["bash", "-c", cmd], cwd=folder, env=env, capture_output=True, text=True)
    if r.returncode and "|| true" not in cmd:
        log = "".join(open(p).read()[-1500:] for p in glob.glob(folder + "/results/*log*"))
        raise RuntimeError(f"{folder}: {cmd}\n{r.stdout}\n{r.stderr}\n{log}")


def tidy(folder):
    """No absolute paths, no caches."""
    for d, dirs, names in os.walk(folder):
        for x in [x for x in dirs if x in SKIP_DIRS]:
            shutil.rmtree(os.path.join(d, x)), dirs.remove(x)
        for n in names:
            p = os.path.join(d, n)
            try:
                t = open(p).read()
            except UnicodeDecodeError:
                continue
            u = t.replace(os.path.abspath(folder) + "/", "")
            u = re.sub(r"/[\w./-]*/(site-packages|python3\.\d+)/", r"\1/", u)
            if u != t:
                open(p, "w").write(u)


def build(v, parts, folder):
    os.makedirs(folder + "/results")
    P = dict(v["P"])
    files = {k: t for k, t in parts.items() if "/" in k and k not in v["drop"]}
    files.update(v["files"])
    for name, old, new in v["E"]:
        assert old in files[name], (name, old)
        files[name] = files[name].replace(old, new)
    files = {fill(k, P): x for k, x in files.items()}
    for name, t in files.items():
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        t = fill(t, P).strip("\n")
        open(f"{folder}/{name}", "w").write((air_code(t) if name.endswith(".py") else t) + "\n")
    cmds = v["cmds"] if v["cmds"] is not None else parts["cmds"].strip().split("\n")
    for c in cmds:
        if c == "POST":
            v["post"](folder)
        else:
            shell(fill(c, P), folder)
    if v["post"] and "POST" not in cmds:
        v["post"](folder)
    env = {"R": load_results(folder), "mean": statistics.mean, "sd": statistics.stdev, "median": statistics.median,
           "re": re, "P": P}
    exec(fill(parts.get("defs", ""), P), env)
    text = parts["paper.md"]
    for old, new in v["paper"]:
        assert old in text, old
        text = text.replace(old, new)
    open(folder + "/paper.md", "w").write(re.sub(r"\n{3,}", "\n\n", render(fill(air_paper(text), P), env)).strip("\n") + "\n")
    tidy(folder)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("out")
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--only", default="")
    a = ap.parse_args()
    shutil.rmtree(a.out, ignore_errors=True)
    todo = []
    for p in sorted(glob.glob(HERE + "/bases/*.txt")):
        base = os.path.basename(p)[:-4]
        if a.only in base:
            parts = read_base(p)
            todo += [(v, parts) for v in variants(parts, base)]
    random.Random(a.seed).shuffle(todo)
    truth = []
    for i, (v, parts) in enumerate(todo, 1):
        name, t = f"k{i:02d}", time.time()
        build(v, parts, f"{a.out}/{name}")
        truth.append({k: v[k] for k in ("honest", "kind", "why", "where")} | {"name": name})
        print(name, v["base"], v["kind"], f"{time.time() - t:.1f}s", flush=True)
    truth = [{k: t[k] for k in ("name", "honest", "kind", "why", "where")} for t in truth]
    json.dump(truth, open(a.out + "/truth.json", "w"), indent=1)
    now = int(time.time())
    for d, _, names in os.walk(a.out):
        for x in [os.path.join(d, n) for n in names] + [d]:
            os.utime(x, (now, now))
    u = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{len(truth)} folders, {u.ru_utime + u.ru_stime:.0f} s CPU in children")


if __name__ == "__main__":
    main()
