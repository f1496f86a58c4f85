"""Shared pieces: what a project is, how it is laid out on disk, how numbers and prose are put into a paper."""
from __future__ import annotations

import json
import math
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

Res = dict[str, Any]
Parts = dict[str, str]


@dataclass
class Base:
    files: dict[str, str]                      # libraries first, scripts last
    run: list[str]                             # scripts that are executed, in order
    cfg: dict[str, Any]                        # what the paper says was used
    paper: Callable[[Any, dict[str, Any], dict[str, Any]], Parts]
    about: dict[str, str]
    tests: str = ""
    load: Callable[[Path, str], Any] | None = None
    logs: list[str] = field(default_factory=list)   # one log name a script; empty name: no log kept
    notes: str = ""                            # README text


def sources(project: str, *names: str) -> dict[str, str]:
    """The project's own code, kept as files in projects/ (libraries first, scripts last)."""
    return {n: (Path(__file__).parent / "projects" / project / n).read_text() for n in names}


def tests(project: str) -> str:
    return (Path(__file__).parent / "projects" / project / "tests.py").read_text()


# ---------------------------------------------------------------- numbers and tables
def mean(x: list[float]) -> float:
    return sum(x) / len(x)


def sd(x: list[float]) -> float:
    m = mean(x)
    return math.sqrt(sum((a - m) ** 2 for a in x) / (len(x) - 1)) if len(x) > 1 else 0.0


def f2(x: float) -> str:
    return f"{x:.2f}"


def f3(x: float) -> str:
    return f"{x:.3f}"


def pct(x: float, d: int = 1) -> str:
    return f"{100 * x:.{d}f}%"


def ms(x: list[float], d: int = 3) -> str:
    return f"{mean(x):.{d}f} ± {sd(x):.{d}f}"


def word(a: float, b: float, d: int = 3, up: str = "above", down: str = "below", same: str = "level with") -> str:
    a, b = round(a, d), round(b, d)
    return up if a > b else down if a < b else same


def pp(a: float, b: float, d: int = 1) -> str:
    """Difference of two shares in percentage points, from the values as printed."""
    diff = round(100 * a, d) - round(100 * b, d)
    return f"{abs(diff):.{d}f} percentage point" + ("" if abs(round(diff, d)) == 1 else "s")


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join(["---"] + ["---:"] * (len(head) - 1)) + "|"]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows])


def spin(text: str, rng: random.Random) -> str:
    """Choose one of [[a|b|c]] wherever it occurs."""
    return re.sub(r"\[\[(.*?)\]\]", lambda m: rng.choice(m.group(1).split("|")), text, flags=re.S)


# ---------------------------------------------------------------- styles of the agents
@dataclass
class Style:
    layout: str
    log: str
    cfg: str
    head: str
    res: str
    util: str
    report: bool
    extras: list[str]
    project: str


def draw_style(rng: random.Random, project: str, force: dict[str, Any]) -> Style:
    s = Style(layout=rng.choice(["flat", "flat", "pkg", "single", "notebook", "bash"]),
              log=rng.choice(["plain", "logging", "loguru", "jsonl", "elapsed", "tqdm"]),
              cfg=rng.choice(["inline", "json", "yaml", "inline"]), head=rng.choice(["num", "plain", "roman", "plain"]),
              res=rng.choice(["metrics", "results", "summary", "scores", "out"]),
              util=rng.choice(["util", "common", "helpers", "misc", "base"]), report=rng.random() < 0.4,
              extras=rng.sample(["req", "readme", "plot", "make", "tests"], rng.choice([1, 2, 3])), project=project)
    for k, x in force.items():
        setattr(s, k, x)
    return s


LOGS = {
    "plain": '''
def log(msg, **kw):
    print(msg, *[f"{k}={x:.4f}" if isinstance(x, float) else f"{k}={x}" for k, x in kw.items()], flush=True)
''',
    "elapsed": '''
T0 = time.perf_counter()


def log(msg, **kw):
    tail = " ".join(f"{k}={x:.4f}" if isinstance(x, float) else f"{k}={x}" for k, x in kw.items())
    print(f"[{time.perf_counter() - T0:8.2f}s] {msg} {tail}".rstrip(), flush=True)
''',
    "logging": '''
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s - %(levelname)s - %(message)s")


def log(msg, **kw):
    parts = [f"{k}: {x:.4f}" if isinstance(x, float) else f"{k}: {x}" for k, x in kw.items()]
    logging.info("%s", msg + (" | " + ", ".join(parts) if parts else ""))
''',
    "loguru": '''
def log(msg, **kw):
    frame = sys._getframe(1)
    now = datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    tail = " ".join(f"{k}={x:.4f}" if isinstance(x, float) else f"{k}={x}" for k, x in kw.items())
    print(f"{now} | INFO     | {frame.f_code.co_name}:{frame.f_lineno} - {msg} {tail}".rstrip(), flush=True)
''',
    "jsonl": '''
def log(msg, **kw):
    row = {"ts": round(time.time(), 3), "event": msg}
    row.update({k: round(x, 4) if isinstance(x, float) else x for k, x in kw.items()})
    print(json.dumps(row), flush=True)
''',
}
LOGS["tqdm"] = LOGS["plain"]
PLAIN_BAR = '''
def bar(items, desc=""):
    return list(items)
'''
TQDM_BAR = '''
def bar(items, desc=""):
    items, start = list(items), time.time()
    for i, item in enumerate(items, 1):
        yield item
        took = time.time() - start
        full = "#" * (10 * i // len(items))
        print(f"{desc}: {100 * i // len(items):3d}%|{full:<10}| {i}/{len(items)} "
              f"[{took:05.2f}s, {i / max(took, 1e-9):.2f}it/s]", flush=True)
'''


def yaml_text(cfg: dict[str, Any]) -> str:
    return "".join(f"{k}: {json.dumps(x)}\n" for k, x in cfg.items())


def util_source(s: Style, cfg: dict[str, Any]) -> str:
    need = {"json", "os"} | {"elapsed": {"time"}, "logging": {"logging", "sys"}, "loguru": {"sys", "datetime"},
                             "jsonl": {"time"}, "tqdm": {"time"}, "plain": set()}[s.log]
    head = "".join(f"import {m}\n" for m in sorted(need))
    if s.cfg == "inline":
        conf = "\nCFG = {\n" + "".join(f"    {k!r}: {x!r},\n" for k, x in cfg.items()).replace("'", '"') + "}\n"
    elif s.cfg == "json":
        conf = '\nwith open(os.path.join(os.path.dirname(__file__), "@UP@config.json")) as f:\n    CFG = json.load(f)\n'
    else:
        head += "\nimport yaml\n"
        conf = '\nwith open(os.path.join(os.path.dirname(__file__), "@UP@config.yaml")) as f:\n' \
               "    CFG = yaml.safe_load(f)\n"
    conf = conf.replace("@UP@", "../" if s.layout == "pkg" else "")
    save = f'''

def save(obj, name="{s.res}"):
    os.makedirs("results", exist_ok=True)
    with open(f"results/{{name}}.json", "w") as f:
        json.dump(obj, f, indent=1)
'''
    return head + conf + "\n" + LOGS[s.log] + "\n" + (TQDM_BAR if s.log == "tqdm" else PLAIN_BAR) + save


REPORT = '''"""Write results/results.md from the stored JSON."""
import json


def flat(obj, path=""):
    if isinstance(obj, dict):
        for k, x in obj.items():
            yield from flat(x, f"{path}/{k}" if path else str(k))
    elif isinstance(obj, list) and obj and isinstance(obj[0], (dict, list)):
        for i, x in enumerate(obj):
            yield from flat(x, f"{path}[{i}]")
    else:
        yield path, obj


def show(x):
    if isinstance(x, list):
        return ", ".join(show(y) for y in x)
    return f"{x:.4f}" if isinstance(x, float) else str(x)


if __name__ == "__main__":
    with open("results/@RES@.json") as f:
        data = json.load(f)
    with open("results/results.md", "w") as f:
        f.write("# Results\\n\\nWritten by @ME@ from results/@RES@.json.\\n\\n| entry | value |\\n|---|---|\\n")
        for key, x in flat(data):
            f.write(f"| {key} | {show(x)} |\\n")
'''
PLOT = '''"""Bar chart of the stored numbers (optional, needs matplotlib)."""
import json
import sys

import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt

with open("results/@RES@.json") as f:
    data = json.load(f)
nums = {k: x for k, x in data.items() if isinstance(x, (int, float))}
if not nums:
    sys.exit("nothing flat to plot")
plt.bar(range(len(nums)), list(nums.values()))
plt.xticks(range(len(nums)), list(nums), rotation=60)
plt.savefig("results/figure.png", dpi=120)
'''


def lay_out(b: Base, s: Style, files: dict[str, str], cfg: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Files below code/ and the scripts to run, for the style's layout."""
    libs = [f for f in files if f not in b.run]
    util = f"{s.util}.py"
    src = {util: util_source(s, cfg)} | {f: t.strip("\n") + "\n" for f, t in files.items()}
    src = {f: t.replace("from util import", f"from {s.util} import").replace("@RES@", s.res) for f, t in src.items()}
    local = [util] + libs
    mods = "|".join(f[:-3] for f in local)
    out: dict[str, str] = {}
    scripts = list(b.run)
    if s.layout in ("single", "notebook"):
        main = scripts[0]
        parts = [src[f] for f in local] + [src[main]]
        drop = re.compile(rf"^from ({mods}) import .*\n", re.M)
        parts = [drop.sub("", p).strip("\n") for p in parts]
        if s.layout == "notebook":
            parts = [f"# %%\n# In[{i}]:\n\n{p}" for i, p in enumerate(parts, 1)]
            parts[0] = "#!/usr/bin/env python\n# coding: utf-8\n\n" + parts[0]
        out[main] = "\n\n\n".join(parts) + "\n"
        for other in scripts[1:]:
            out[other] = src[other]
            if re.search(rf"^from ({mods}) import", src[other], re.M):
                out[other] = re.sub(rf"^from ({mods}) import", f"from {main[:-3]} import", src[other], flags=re.M)
        tests = re.sub(rf"^(import|from) ({mods})\b", rf"\1 {main[:-3]}", b.tests, flags=re.M)
        tests = re.sub(rf'"({mods})\.', f'"{main[:-3]}.', tests)
    elif s.layout == "pkg":
        out[f"{s.project}/__init__.py"] = ""
        for f in local:
            out[f"{s.project}/{f}"] = re.sub(rf"^from ({mods}) import", rf"from {s.project}.\1 import", src[f],
                                             flags=re.M)
        for f in scripts:
            out[f] = re.sub(rf"^from ({mods}) import", rf"from {s.project}.\1 import", src[f], flags=re.M)
        tests = re.sub(rf"^from ({mods}) import", rf"from {s.project}.\1 import", b.tests, flags=re.M)
        tests = re.sub(rf'"({mods})\.', rf'"{s.project}.\1.', tests)
    else:
        out, tests = dict(src), b.tests
    if s.cfg != "inline":
        out[f"config.{s.cfg}"] = yaml_text(cfg) if s.cfg == "yaml" else json.dumps(cfg, indent=2) + "\n"
    if s.report:
        out["report.py"] = REPORT.replace("@RES@", s.res).replace("@ME@", "report.py")
        scripts.append("report.py")
    if b.tests and (("tests" in s.extras) or "mock" in b.tests) and s.layout != "notebook":
        out[f"test_{s.project}.py"] = tests.strip("\n") + "\n"
    if "req" in s.extras or len(out) < 2:
        out["requirements.txt"] = "numpy\nscikit-learn\nscipy\n" + ("pyyaml\n" if s.cfg == "yaml" else "")
    if "plot" in s.extras:
        out["plot.py"] = PLOT.replace("@RES@", s.res)
    if "make" in s.extras and s.layout != "bash":
        out["Makefile"] = "all:\n" + "".join(f"\tcd .. && python code/{f}\n" for f in scripts)
    if "readme" in s.extras:
        out["README.md"] = f"# {s.project}\n\n{b.notes}\n\nRun from the folder above `code/`:\n\n" + \
            "".join(f"    python code/{f}\n" for f in scripts)
    while len(out) > 7 and any(k in out for k in ("plot.py", "Makefile", "requirements.txt", "README.md")):
        out.pop(next(k for k in ("plot.py", "Makefile", "requirements.txt", "README.md") if k in out))
    if s.layout == "bash":
        names = (b.logs or ["run.log"]) + [""] * len(scripts)
        body = "".join(f"python code/{f}" + (f" 2>&1 | tee results/{n}" if n else "") + "\n" for f,
                       n in zip(scripts, names))
        out["run_all.sh"] = "#!/usr/bin/env bash\nset -u\nmkdir -p results\n" + body
    return out, scripts


# ---------------------------------------------------------------- the paper
ROMAN = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X"]
ORDER = ["Introduction", "Method", "Setup", "Results", "Discussion", "Limitations", "Code and files", "Conclusion"]
NAMES = {"Introduction": ["Introduction", "Motivation", "Background"], "Method": ["Method", "Approach", "Methods"],
         "Setup": ["Experimental setup", "Setup", "Protocol", "Experiments"], "Results": ["Results", "Findings"],
         "Discussion": ["Discussion", "Reading the numbers"], "Limitations": ["Limitations", "Limitations and scope"],
         "Code and files": ["Code and files", "Reproducibility", "Availability"],
         "Conclusion": ["Conclusion", "Summary and conclusion"]}
CLOSE = ["[[We make no claim|Nothing here is claimed]] beyond the [[settings|conditions]] that were [[run|tried]]; "
         "larger models and other kinds of data [[may well behave differently|could change the picture]].",
         "The study is small [[on purpose|by design]]: [[every run fits on a laptop|it can be repeated on any "
         "laptop]], and [[we would rather have|we preferred]] a result that can be checked than one that is "
         "impressive.",
         "[[Readers should keep in mind|It should be kept in mind]] that the [[data sets are small|problems are "
         "small]], so [[differences in the third decimal carry|the last digit carries]] little [[meaning|weight]]."]
CPU = ["All runs used the CPU only.", "No GPU was used at any point.", "The [[code|whole study]] runs on a plain CPU."]
ROUND = ["Numbers in this paper are rounded from the stored files; differences are taken [[from the printed values"
         "|between the printed values]] [[where they are stated in percentage points|where they are given in points]].",
         "Values are rounded to the digits shown; [[standard deviations are|the ± values are]] sample standard "
         "deviations [[with n - 1 in the denominator|(n - 1)]] wherever they are given."]


ASIDES = [
    "[[A word on size.|A remark on scale.]] Experiments that end within a minute have a bad name, since effects seen "
    "on small problems do not always survive on large ones. They have one virtue that large ones lack: [[a doubtful "
    "reader can run them again|anyone in doubt can repeat them]] over a cup of coffee, change a setting, and see what "
    "happens. We think that this is worth something. A claim that nobody can afford to check is, for most readers, a "
    "matter of trust, while a small result that can be checked is at least [[a fixed point|solid ground]] from which "
    "larger questions can be asked with some care.",
    "[[On reading the comparison.|How to read this.]] A difference between two averages has three possible sources: "
    "the methods, the data that happened to be drawn, and the many small decisions that an author takes without "
    "noticing. Only the first is of interest. The second shrinks with more repetitions and can be judged by the "
    "spread that is given. The third does not shrink at all, and the best one can do is to [[state the "
    "decisions|write the decisions down]], which is why the settings are listed here and why the code is kept short "
    "enough to be read in one sitting.",
    "[[Relation to earlier work.|Earlier work.]] None of the ingredients is new, and the question has been asked "
    "before on larger problems and with more elaborate models. What earlier work [[seldom offers|rarely gives]] is "
    "the complete path from the raw data to the printed number in a form that fits on a few pages. We tried to supply "
    "that path, at the price of a narrow scope. Where our outcome agrees with what was known, it may serve as an "
    "exercise for students; where it does not, the reason should be sought first in the size of the data and only "
    "then in the method.",
    "[[What we would do next.|Next steps.]] Three extensions come to mind. The first is to repeat the comparison on "
    "data that were not made or selected for teaching, where nuisances are less tidy. The second is to vary the "
    "settings that were held fixed here, one at a time, and to see which of them the outcome hinges on. The third is "
    "to hand the question to somebody else together with the text but without the code: [[if two people arrive at "
    "different numbers|should their numbers differ]], the description is incomplete, and that would be good to know. "
    "None of this was done for the present note.",
    "[[Practical advice.|For practitioners.]] Whoever faces a similar choice should not take the numbers of this note "
    "as they are. It costs little to repeat the comparison on one's own data, and the outcome there counts for more "
    "than any table in a paper. What may carry over is the [[way of looking|procedure]]: decide on a measure before "
    "the first run, keep a simple alternative in the comparison from the start, look at the spread as well as at the "
    "centre, and write down what went wrong. The last point is the one most often neglected, and it is the one from "
    "which we learned most.",
]


def settings(cfg: dict[str, Any]) -> str:
    rows = [[f"`{k}`", ", ".join(map(str, x)) if isinstance(x, list) else str(x)] for k, x in cfg.items()]
    return table(["setting", "value"], rows)


def render(parts: Parts, b: Base, s: Style, code: dict[str, str], results: list[str], rng: random.Random) -> str:
    known = [f for f in code if Path(f).name in b.about]
    listing = "; ".join(f"`code/{f}` {b.about[Path(f).name]}" for f in known)
    listing = listing or "; ".join(f"`code/{f}`" for f in code)
    parts = dict(parts)
    parts["Code and files"] = (
        f"[[The repository is small.|The code comes with this paper.|All code is included.]] It holds {listing}. "
        + ("[[Settings are read from|The settings live in]] " + f"`code/config.{s.cfg}`. " if s.cfg != "inline" else "")
        + ("The whole [[chain|sequence]] is started by `code/run_all.sh`. " if s.layout == "bash" else "")
        + "[[What the runs left behind|The output of the runs]] is in " + ", ".join(f"`results/{x}`" for x in results)
        + ". " + rng.choice(ROUND) + " " + rng.choice(CPU))
    aside = rng.choice(ASIDES)
    if rng.random() < 0.5:
        parts["Discussion"] += "\n\n" + aside
    else:
        parts["Limitations"] = aside + "\n\n" + parts["Limitations"]
    parts["Setup"] += "\n\n" + rng.choice(["All settings at a glance:", "The settings:", "Settings of the "
    "runs:"]) + "\n\n" + settings(b.cfg)
    parts["Limitations"] += " " + rng.choice(CLOSE)
    out = [f"# {parts['title']}", ""]
    abstract = parts["abstract"]
    out += [f"**Abstract.** {abstract}", ""] if s.head == "roman" else ["## Abstract", "", abstract, ""]
    n = 0
    for key in ORDER:
        if key not in parts:
            continue
        n += 1
        name = rng.choice(NAMES[key])
        out += [{"num": f"## {n} {name}", "plain": f"## {name}", "roman": f"## {ROMAN[n - 1]}. {name}"}[s.head], "",
                parts[key].strip(), ""]
    return spin("\n".join(out), rng)


def read_json(folder: Path, res: str) -> Any:
    return json.loads((folder / "results" / f"{res}.json").read_text())
