"""Static analysis of a repository: commands, options, known fixes, edits of its code."""

from __future__ import annotations

import ast
import shlex
import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.record.events.repository_events import CommandFound
from labwright.record.schema.nodes import Failure
from labwright.record.schema.repository import RepositoryCommand, RepositoryRepair, format_command_line
from labwright.sandbox.repository.git_mirror import apply_edit
from labwright.stages.repository.baseline_reproduction import keeps_program
from labwright.stages.repository.code_index import build_edit, index_code, return_argument, return_zeros
from labwright.stages.repository.command_discovery import find_missing_script, insert_seed, list_candidates
from labwright.stages.repository.config_options import find_keys, find_options
from labwright.stages.repository.known_fixes import compute_signature, propose_fixes
from labwright.stages.repository.patch_scope import find_tampering
from tests.repositories import FILES

CLICK = """
import click


@click.command()
@click.option("--random-seed", default=0)
@click.option("--dropout", default=0.1)
def main(random_seed, dropout):
    pass


if __name__ == "__main__":
    main()
"""
HYDRA = {
    "run.py": "import hydra\n\n\n@hydra.main(config_path='conf', config_name='config')\ndef main(cfg):\n    pass\n\n\n"
    "if __name__ == '__main__':\n    main()\n",
    "conf/config.yaml": "defaults:\n  - model: gated\n  - schedule: cosine\nseed: 1\nepochs: 3\n",
    "conf/model/gated.yaml": "use_gate: true\nwidth: 8\n",
    "conf/model/plain.yaml": "use_gate: false\n",
    "conf/schedule/cosine.yaml": "warmup: 2\n",
    "conf/schedule/none.yaml": "{}\n",
}
MANY = {
    "README.md": "    $ python main.py --epochs 3\n    python fit.py train --seed 4 --out x\n",
    "fit.py": (
        "import argparse\np = argparse.ArgumentParser()\ns = p.add_subparsers()\nt = s.add_parser('train')\n"
        "t.add_argument('--seed', type=int)\nt.add_argument('--no-gate', action='store_true')\n"
        "e = s.add_parser('evaluate')\ne.add_argument('--out')\nargs = p.parse_args()\n"
    ),
}


def first(files: dict[str, str]) -> tuple[str, ...]:
    return list_candidates(files)[0].argv


def test_the_readme_command_with_its_seed_marked() -> None:
    found = list_candidates(FILES)
    assert found[0].argv == ("python", "train.py", "--seed", "{seed}") and found[0].location == "README.md"
    assert not found[0].wrong and len(found) == 1


def test_what_is_outdated_gives_way_to_what_the_code_offers() -> None:
    found = list_candidates(MANY)
    assert (
        found[0].argv == ("python", "fit.py", "train", "--seed", "{seed}") and found[0].location == "the code of fit.py"
    )
    assert {one.wrong for one in found[1:]} == {"there is no main.py", "the parser has no option --out"}


@pytest.mark.parametrize(
    ("files", "argv"),
    [
        ({"tool.py": CLICK.lstrip()}, ("python", "tool.py", "--random-seed", "{seed}")),
        (HYDRA, ("python", "run.py", "hydra.run.dir={out}", "seed={seed}")),
        (
            {"src/pkg/__init__.py": "", "src/pkg/train.py": "if __name__ == '__main__':\n    pass\n"},
            ("python", "-m", "pkg.train"),
        ),
        (
            {"Makefile": "all:\n\tpython go.py --n 3 \\\n\t  --seed=7\n", "go.py": "print(1)\n"},
            ("python", "go.py", "--n", "3", "--seed={seed}"),
        ),
    ],
)
def test_entries_of_many_kinds(files: dict[str, str], argv: tuple[str, ...]) -> None:
    assert first(files) == argv


def test_scripts_that_documents_name_come_first() -> None:
    entry = "if __name__ == '__main__':\n    pass\n"
    paths = ("run_all.py", "my_agent.py", "examples/agent.py", "examples/other.py", "examples/plot_agent.py")
    found = dict.fromkeys(paths, entry) | {"README.md": "See _agent.py_ and [plots](examples/plot_agent.py)."}
    assert [one.argv[-1] for one in list_candidates(found)] == ["examples/agent.py", "run_all.py", "my_agent.py"]
    found["README.md"] += "\n\n    python examples/other.py --n 3\n"
    assert list_candidates(found)[0].argv == ("python", "examples/other.py", "--n", "3")


def test_a_file_with_a_byte_order_mark_is_code() -> None:
    assert [one.name for one in index_code({"a.py": "\ufeffdef f(x):\n    return x\n"}).definitions] == ["f"]


def test_a_command_without_a_seed_stays_without() -> None:
    code = index_code({"a.py": "print(1)\n"})
    assert insert_seed(("python", "a.py"), code) == ("python", "a.py")
    assert list_candidates({"notes.txt": "nothing"}) == []


def test_options_and_keys_that_can_be_turned_off() -> None:
    off = {
        one.dest: one.off_args
        for one in find_options(
            index_code(
                {
                    "a.py": textwrap.dedent("""
        import argparse
        p = argparse.ArgumentParser()
        p.add_argument("--no-gate", dest="gate", action="store_false")
        p.add_argument("--mix", action=argparse.BooleanOptionalAction, default=True)
        p.add_argument("--without-norm", action="store_true")
        p.add_argument("--fast", action="store_true")
        p.add_argument("--skip", type=bool, default=True)
        p.add_argument("--rate", type=float, default=0.1)
    """)
                }
            )
        )
    }
    assert off == {
        "gate": ("--no-gate",),
        "mix": ("--no-mix",),
        "without_norm": ("--without-norm",),
        "fast": (),
        "skip": ("--skip", "False"),
        "rate": (),
    }
    code = index_code(HYDRA)
    assert {one.name: one.value for one in find_keys(HYDRA, ("python", "run.py"), code)} == {
        "seed": 1,
        "epochs": 3,
        "model.use_gate": True,
        "model.width": 8,
        "schedule.warmup": 2,
    }


# --- mends ------------------------------------------------------------------------------------------------------------

COMMAND = RepositoryCommand(argv=("python", "train.py", "--seed", "{seed}", "--old", "3"), metric="m.json:a")


def mended(message: str, texts: dict[str, str], said: str = "") -> tuple[str, list[RepositoryRepair]]:
    signature = compute_signature(Failure(kind="other", message=message), said)
    return signature, list(propose_fixes(signature, texts, COMMAND, said))


@pytest.mark.parametrize(
    ("message", "before", "after"),
    [
        (
            "ImportError: cannot import name 'Mapping' from 'collections' (x.py)",
            "from collections import Mapping, OrderedDict\n",
            "from collections import OrderedDict\nfrom collections.abc import Mapping\n",
        ),
        (
            "AttributeError: module 'collections' has no attribute 'Iterable'",
            "import collections\nisinstance(x, collections.Iterable)\n",
            "import collections\nimport collections.abc\nisinstance(x, collections.abc.Iterable)\n",
        ),
        (
            "AttributeError: `np.float_` was removed in the NumPy 2.0 release. Use `np.float64` instead.",
            "import numpy as np\nx = np.float_(3) + np.float_precision\n",
            "import numpy as np\nx = np.float64(3) + np.float_precision\n",
        ),
        (
            "AttributeError: module 'numpy' has no attribute 'int'.",
            "y = np.int(2) + np.int32(1)\n",
            "y = np.int64(2) + np.int32(1)\n",
        ),
        ("AttributeError: module 'numpy' has no attribute 'trapz'", "numpy.trapz(y)\n", "numpy.trapezoid(y)\n"),
        (
            "AttributeError: module 'inspect' has no attribute 'getargspec'",
            "inspect.getargspec(f)\n",
            "inspect.getfullargspec(f)\n",
        ),
        ("AttributeError: module 'time' has no attribute 'clock'", "t = time.clock()\n", "t = time.perf_counter()\n"),
    ],
)
def test_names_that_are_gone(message: str, before: str, after: str) -> None:
    signature, found = mended(message, {"a.py": before, "b.py": "x = 1\n"})
    assert signature.startswith("name:") and len(found) == 1 and found[0].kind == "patch"
    assert [one.path for one in found[0].edits] == ["a.py"] and apply_edit(before, found[0].edits[0]) == after


def test_modules_of_the_repository_are_found_and_others_are_asked_for() -> None:
    message = "ModuleNotFoundError: No module named 'pkg.core'"
    assert mended(message, {"src/pkg/core.py": "", "src/pkg/__init__.py": ""})[1][0].env == {"PYTHONPATH": "src"}
    _, found = mended("ModuleNotFoundError: No module named 'sklearn'", {"a.py": ""})
    assert [(one.kind, one.pins) for one in found] == [("pins", ("scikit-learn",))]
    assert mended("ModuleNotFoundError: No module named 'imp'", {"a.py": ""})[1] == []


def test_an_option_that_is_gone_is_replaced_or_left_out() -> None:
    texts = {
        "train.py": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--seed')\n"
        "p.add_argument('--old-steps')\n"
    }
    signature, found = mended("it ended with exit code 2", texts, "train.py: error: unrecognized arguments: --old 3")
    assert signature == "option:--old"
    assert [one.argv for one in found] == [("python", "train.py", "--seed", "{seed}", "--old-steps", "3")]
    _, found = mended("x", {"train.py": "import argparse\n"}, "error: unrecognized arguments: --old 3")
    assert [one.argv for one in found] == [("python", "train.py", "--seed", "{seed}")]


def test_what_stops_a_program_is_told_apart() -> None:
    assert compute_signature(None, "anything") == ""
    assert compute_signature(Failure(kind="memory", message="too much"), "") == "memory"
    assert (
        compute_signature(Failure(kind="other", message="m"), "FileNotFoundError: [Errno 2] No such file: 'd/x.npy'")
        == "data:d/x.npy"
    )
    assert compute_signature(Failure(kind="other", message="ValueError: odd"), "") == "ValueError: odd"


# --- edits ------------------------------------------------------------------------------------------------------------

LINES = st.lists(st.sampled_from(["a = 1\n", "b = 2\n", "c = 3\n", "\n", "a = 1 \n"]), min_size=1, max_size=12)


@given(before=LINES, after=LINES)
def test_an_edit_makes_exactly_the_other_text(before: list[str], after: list[str]) -> None:
    old, new = "".join(before), "".join(after)
    if old != new:
        assert apply_edit(old, build_edit("x.py", old, new)) == new


MODULE = '''
import functools


@functools.lru_cache
def plain(x, scale=2):
    """Says something."""
    if x > 3:
        return x
    return (x *
            scale)


class Layer:
    def forward(self, x, y):
        def inner(z):
            return z
        return inner(x) + y


def one_line(x): return x + 1


def both(x):
    return x, {"a": [x]}


def stream(x):
    yield x


def nothing(x):
    print(x)
'''


def test_functions_give_back_zeros_or_their_argument() -> None:
    code = index_code({"m.py": MODULE.lstrip()})
    text = MODULE.lstrip()
    found = {one.symbol: one for one in code.definitions}
    space: dict[str, object] = {}
    exec(return_zeros(found["plain"], text) or "", space)
    assert space["plain"](5) == 0 and space["plain"](1) == 0  # pyright: ignore
    exec(return_zeros(found["Layer.forward"], text) or "", space)
    assert space["Layer"]().forward([1, 2], [3]) == [0, 0, 0]  # pyright: ignore
    exec(return_zeros(found["both"], text) or "", space)
    assert space["both"](2) == (0, {"a": [0]})  # pyright: ignore
    exec(return_argument(found["Layer.forward"], text, "y"), space)
    assert space["Layer"]().forward(1, 7) == 7  # pyright: ignore
    exec(return_argument(found["plain"], text, "scale"), space)
    assert space["plain"](5) == 2 and space["plain"].__doc__ == "Says something."  # pyright: ignore
    exec(return_argument(found["one_line"], text, "x"), space)
    assert space["one_line"](4) == 4  # pyright: ignore
    assert return_zeros(found["stream"], text) is None and return_zeros(found["nothing"], text) is None
    for name in ("plain", "Layer.forward", "one_line"):
        ast.parse(return_zeros(found[name], text) or "(")


@pytest.mark.parametrize(
    ("argv", "lacking"),
    [
        (("python", "nope.py", "--seed", "{seed}"), "nope.py"),
        (("python3.11", "-u", "lib/nope.py"), "lib/nope.py"),
        (("python", "train.py"), ""),
        (("python", "./train.py"), ""),
        (("python", "-m", "torch.distributed.run"), ""),
        (("python", "/opt/x.py"), ""),
        (("bash", "nope.py"), ""),
        (("python", "-c", "print(1)"), ""),
    ],
)
def test_a_script_that_a_command_names_and_the_repository_lacks(argv: tuple[str, ...], lacking: str) -> None:
    assert find_missing_script(argv, FILES) == lacking


def test_no_repair_runs_another_program_than_the_person_named() -> None:
    named = RepositoryCommand(argv=("python", "train.py", "--old"), metric="metrics.json:a")
    other = RepositoryRepair(kind="argv", reason="x", argv=("python", "tinyfit/report.py"))
    mended = RepositoryRepair(kind="argv", reason="x", argv=("python", "train.py"))
    found = [
        keeps_program(one, CommandFound(command=named, by=by), FILES)
        for one in (other, mended)
        for by in ("person", "repository")
    ]
    assert found == [False, True, True, True] and keeps_program(other, None, FILES)


def test_a_command_is_written_as_a_shell_reads_it() -> None:
    words = ["python", "train.py", "--seed", "{seed}", "--note", "a b", "lr=0.1", "it's"]
    text = format_command_line(words)
    assert shlex.split(text) == words and "{seed}" in text and "'{seed}'" not in text


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "-" * 100_000 + "1\n",
        "f = " + "lambda x: " * 400 + "x\n",
        "x=1\0\n",
        "def f(x): return " + "+".join("x" * 2000),
    ],
)
def test_code_that_python_cannot_follow_is_passed_over(text: str) -> None:
    texts = {"odd.py": text, "train.py": "if __name__ == '__main__':\n    print(1)\n"}
    assert list(index_code(texts).trees) == ["train.py"]
    assert [one.argv for one in list_candidates(texts)] == [("python", "train.py")]
    assert find_tampering("train.py", texts["train.py"], text).startswith("train.py no longer parses")


@pytest.mark.parametrize("piece", ["\n", " ", "\t\n", "\r", "A=b \n"])
def test_a_long_document_is_read_at_once(piece: str) -> None:
    texts = {"README.md": piece * 50_000 + "\npython train.py --x\n", "train.py": ""}
    began = time.process_time()
    assert [one.argv for one in list_candidates(texts)][:1] == [("python", "train.py", "--x")]
    assert time.process_time() - began < 5
