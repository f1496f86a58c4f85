"""What untrusted code can write to is opened by one module only: no other way in is open by default."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULE = "labwright.record.untrusted_files"
INSIDE = ("sandbox/kernel_side", "sandbox/scorer_driver.py", "sandbox/repository/tracing")
"""What runs in the sandbox itself."""
PATH_METHODS = frozenset(
    "chmod glob hardlink_to iterdir lchmod link_to mkdir open read_bytes read_text rename rglob rmdir symlink_to touch "
    "unlink walk write_bytes write_text".split()
)
OS_FUNCTIONS = frozenset(
    "chmod chown link listdir lstat makedirs mkdir mkfifo mknod open readlink remove removedirs rename renames replace "
    "rmdir scandir stat symlink truncate unlink utime walk".split()
)
LOADERS = frozenset(
    {("np", "load"), ("np", "save"), ("np", "savez"), ("Image", "open"), ("tarfile", "open"), ("zipfile", "ZipFile")}
)

DATA = "the user's data files and the run's own copies; no code can write to them"
LABELS = "withheld labels and frozen scorers; no code can see them"
OWN = "files of this program, read only by code"
SYSTEM = "/proc, /sys, control groups and the system's programs"
HOST = "creates, renames or removes folders that no code can see or whose parent it cannot write to"
SEALED = "folders that are sealed, with plain files only, written or checked by the host"
STORE = "packages and models that were verified by their hash, and the store of the user"
PAPER = "the paper's folder; TeX creates no links, and its output is read after its end"
ALLOWED = {
    "sandbox/content_store.py": STORE + "; an archive itself, in a folder of the host",
    "sandbox/cell_runner.py": HOST,
    "sandbox/cluster/actor.py": HOST + "; " + SYSTEM,
    "sandbox/cluster/executor.py": HOST,
    "sandbox/data/frames.py": DATA,
    "sandbox/data/tables.py": DATA,
    "sandbox/data/user_dataset.py": DATA,
    "sandbox/data/preparation.py": DATA,
    "sandbox/datasets.py": DATA,
    "sandbox/packages.py": STORE + "; the interpreter's packages and the user's readable folders",
    "sandbox/exec_file.py": "the file of the user and its neighbours, before anything runs",
    "sandbox/executor.py": HOST,
    "sandbox/isolation/bubblewrap.py": SYSTEM,
    "sandbox/isolation/interpreter.py": SYSTEM,
    "sandbox/isolation/processes.py": "/proc and control groups; " + HOST,
    "sandbox/kernels.py": "the kernel's own folder, which it sees read-only",
    "sandbox/llm_gateway.py": "views; predictions in memory; the socket in a folder that the kernel sees read-only",
    "sandbox/metrics.py": LABELS,
    "sandbox/monitor.py": SYSTEM,
    "sandbox/output.py": "the live output, outside of the code's folder",
    "sandbox/hub.py": STORE,
    "sandbox/repository/command_cells.py": HOST,
    "sandbox/repository/environment.py": "the mounts of the user",
    "sandbox/repository/git_mirror.py": "mirror and trees, which commands see read-only; a temporary git directory",
    "sandbox/repository/scratch_tree.py": "files of the mirror, which commands see read-only; a folder of the host",
    "sandbox/repository/predictions.py": LABELS,
    "sandbox/scorers.py": LABELS + "; a new folder, before the scorer runs",
    "sandbox/scoring.py": LABELS,
    "sandbox/gpus.py": HOST,
    "sandbox/workspace.py": "a job's folder before its code runs; views; names of sealed folders",
    "stages/reviewer_requests.py": "reviews of the user, copied to where no code can write",
    "stages/evidence/reproduction.py": DATA,
    "stages/ideation/idea_checks.py": "documents of the user",
    "stages/ideation/ideation_steps.py": "documents of the user",
    "stages/paper/paper_steps.py": SEALED + "; " + PAPER,
    "stages/nodes/node_runner.py": SEALED + "; " + OWN,
    "stages/nodes/node_cells.py": HOST,
    "stages/nodes/node_plots.py": SEALED,
    "stages/nodes/repository_program.py": OWN + "; the code of the user, before anything runs",
    "stages/paper/typesetting.py": PAPER,
    "stages/paper/figures.py": PAPER + "; " + SEALED,
    "stages/paper/figure_style.py": PAPER,
    "stages/paper/hypothesis_figures.py": OWN,
    "stages/paper/hypothesis_plots.py": OWN,
    "stages/paper/latex.py": OWN,
    "stages/paper/latex_sources.py": PAPER,
    "stages/paper/template.py": "templates of the user and of this program",
    "stages/repository/command_runs.py": HOST,
    "stages/run_context.py": OWN,
    "stages/user_documents.py": "documents of the user",
}
"""Modules that resolve paths themselves, and what of. No entry for a module that reads what running code left."""


def find_path_accesses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of each call that resolves a path by itself."""
    nodes = list(ast.walk(tree))
    ours = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == MODULE
        for alias in node.names
    }
    opened = {
        item.optional_vars.id
        for node in nodes
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name)
        and isinstance(item.context_expr, ast.Call)
        and isinstance(item.context_expr.func, ast.Name)
        and item.context_expr.func.id in ours
    } | {
        node.arg
        for node in nodes
        if isinstance(node, ast.arg)
        and isinstance(node.annotation, ast.Name)
        and node.annotation.id in ("BufferedReader", "BytesIO")
    }
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(id="open"):
                yield node.lineno, "open"
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in OS_FUNCTIONS:
                by_descriptor = {"dir_fd", "src_dir_fd", "dst_dir_fd"} & {word.arg for word in node.keywords}
                if not by_descriptor:
                    yield node.lineno, f"os.{name}"
            case ast.Attribute(value=ast.Name(id="shutil"), attr=name) if name != "copyfileobj":
                yield node.lineno, f"shutil.{name}"
            case ast.Attribute(value=ast.Name(id=library), attr=name) if (library, name) in LOADERS:
                first = node.args[0] if node.args else None
                if not (isinstance(first, ast.Name) and first.id in opened):
                    yield node.lineno, f"{library}.{name}"
            case ast.Attribute(value=value, attr=name) if name in PATH_METHODS:
                if not (isinstance(value, ast.Name) and value.id in ("os", "re", "np", "ast", "shutil", "urllib")):
                    yield node.lineno, f".{name}"
            case _:
                pass


def list_modules() -> dict[str, Path]:
    return {
        name: path
        for folder in ("sandbox", "stages")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not (name := path.relative_to(ROOT).as_posix()).startswith(INSIDE)
    }


def find_violations(modules: Mapping[str, ast.Module]) -> list[str]:
    return [
        f"{name}:{line} calls {what}: use {MODULE}"
        for name, tree in modules.items()
        if name not in ALLOWED
        for line, what in find_path_accesses(tree)
    ]


@pytest.mark.slow
def test_no_other_module_opens_paths() -> None:
    modules = {name: ast.parse(path.read_text()) for name, path in list_modules().items()}
    assert len(modules) > 100 and find_violations(modules) == []
    assert [name for name in ALLOWED if name in modules and not any(find_path_accesses(modules[name]))] == []


@pytest.mark.parametrize(
    "code",
    [
        "open(path)",
        "(folder / 'x').read_text()",
        "import os\nos.walk(folder)",
        "import shutil\nshutil.rmtree(folder)",
        f"import numpy as np\nfrom {MODULE} import open_regular\nnp.load(open_regular_name)",
        "def f():\n    for one in folder.rglob('*'): yield one",
    ],
)
def test_another_way_in_is_found(code: str) -> None:
    assert len(find_violations({"sandbox/new.py": ast.parse(code)})) == 1


@pytest.mark.parametrize(
    "code", ["import os\nos.rename(a, b, src_dir_fd=1, dst_dir_fd=2)", "import re\nre.match('a', 'b').group()"]
)
def test_access_by_descriptor_is_no_other_way_in(code: str) -> None:
    assert find_violations({"sandbox/new.py": ast.parse(code)}) == []
