"""Write 50 small papers with code, logs and results, half of them with one planted invention.

Usage: python make.py OUT_DIR [--seed N]
"""
from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import re
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import bases1  # noqa: E402
import bases2
import bases3
import bases4
from common import Base, Ctx, Spec, fill_code, fill_paper, load_results
from honest import honest_specs
from invented import invented_specs
from runner import preload, run_command

BASES: dict[str, Base] = {
    "mlp": bases1.MLP, "bandit": bases1.BANDIT, "calib": bases1.CALIB, "noise": bases1.NOISE, "active": bases1.ACTIVE,
    "text": bases2.TEXT, "series": bases2.SERIES, "diab": bases2.DIAB, "clust": bases2.CLUST, "imbal": bases2.IMBAL,
    "distill": bases3.DISTILL, "self": bases3.SELF, "optim": bases3.OPTIM, "grid": bases3.GRID, "pca": bases3.PCA,
    "conf": bases4.CONF, "bag": bases4.BAG, "impute": bases4.IMPUTE, "anom": bases4.ANOM, "fed": bases4.FED,
}


def build(spec: Spec, root: Path, style: int, planted: bool = True) -> None:
    """Write and run one paper. With planted=False the invention is left out (the honest twin)."""
    base, rng = BASES[spec.base], random.Random(style)
    ctx = Ctx(root, {**base.params, **spec.params})
    for name, text in base.files.items():
        ctx.write(name, fill_code(text, {k: v for k, v in ctx.params.items() if k.isupper()}))
    (root / "results").mkdir(parents=True, exist_ok=True)
    show = rng.random() < 0.3
    if spec.setup:
        spec.setup(ctx)
    if planted and spec.before:
        spec.before(ctx)
    commands = spec.run or base.run
    if planted and "RUN" in ctx.params:
        commands = ctx.params["RUN"]
    for command in commands:
        command = fill_code(command, ctx.params)
        code = run_command(root, command, show=show)
        assert code == 0, f"{root}: {command} ended with {code}\n{ctx.read('results/log.txt')[-1500:]}"
    if planted and spec.after:
        spec.after(ctx)
    ctx.results = load_results(root)
    if planted and spec.skew:
        spec.skew(ctx)
    extra = {**spec.extra, **(spec.lies if planted else {})}
    ctx.write("paper.md", fill_paper(base, ctx, extra, rng))
    if planted and spec.last:
        spec.last(ctx)
    for cache in root.rglob("__pycache__"):
        shutil.rmtree(cache)


def locate(root: Path, where: str) -> str:
    """file::needle -> file:line."""
    name, _, needle = where.partition("::")
    text = (root / name).read_text()
    if not needle:
        return name
    found = re.search(r"\s+".join(re.escape(part) for part in needle.split()), text)
    assert found, f"{root}: {needle!r} not in {name}"
    return f"{name}:{text[:found.start()].count(chr(10)) + 1}"


def plan(seed: int) -> list[tuple[str, Spec, int]]:
    """Name, spec and style of every paper, in an order that tells nothing."""
    specs = honest_specs(seed) + invented_specs(seed)
    rng = random.Random(1000 + seed)
    rng.shuffle(specs)
    return [(f"p{i:02d}", spec, rng.randrange(10 ** 6)) for i, spec in enumerate(specs, 1)]


def one(item: tuple[str, int], out: Path, planted: bool, seed: int) -> None:
    """Build one paper of the plan (in a worker process; hooks cannot be pickled, so the plan is made again)."""
    name, style = item
    spec = next(s for n, s, _ in plan(seed) if n == name)
    try:
        build(spec, out / name, style, planted)
    except Exception as error:
        raise RuntimeError(f"{name} ({spec.base}, {spec.kind}): {type(error).__name__}: {error}") from None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--twins", action="store_true", help="leave the inventions out (for checks)")
    args = parser.parse_args()
    start, papers = time.time(), plan(args.seed)
    chosen = [p for p in papers if not args.only or p[0] in args.only.split(",")]
    args.out.mkdir(parents=True, exist_ok=True)
    for name, _, _ in chosen:
        shutil.rmtree(args.out / name, ignore_errors=True)

    preload()
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("fork")) as pool:
        jobs = [pool.submit(one, (item[0], item[2]), args.out, not args.twins, args.seed) for item in chosen]
        errors = [str(e) for e in (job.exception() for job in jobs) if e]
    if errors:
        raise SystemExit("\n".join(errors))
    if not args.twins and not args.only:
        truth = [{"name": n, "honest": s.honest, "kind": s.kind, "what": s.what, "where": locate(args.out / n, s.where)}
                 for n, s, _ in papers]
        (args.out / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")
    print(f"{len(chosen)} papers in {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
