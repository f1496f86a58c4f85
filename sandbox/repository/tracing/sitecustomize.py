"""Loaded first in a traced run of a repository's command. It records which code runs, and with which kinds of values.

For each function of the checkout it records the number of calls, the callers, and the arguments and return values of
its first calls (kinds, shapes and hashes of arrays, no values); for each file: the executed lines. Each process writes
one file at its end to the folder in `SCIENTIST_TRACE`. Uses only the standard library and does not change results, but
slows down Python code. If `SCIENTIST_UNTAUGHT` is set instead, nothing is recorded and PyTorch optimizers do not update
parameters.
"""

# pyrefly: ignore-errors
# Runs in the user's interpreter, which may be old: hence no annotations.

import atexit
import hashlib
import json
import os
import sys
import threading
import types

MAX_DESCRIBED_CALLS = 3
"""Number of calls per function whose values are described."""
MAX_HASHED_BYTES = 2**26
"""Size limit of hashed arrays, in bytes."""
MAX_TRACED_CALLS = 200
"""Number of calls per function whose lines are recorded; later calls are only counted."""

_root = os.getcwd() + os.sep
_folder = os.environ.get("SCIENTIST_TRACE", "") and os.path.join(_root, os.environ["SCIENTIST_TRACE"])
_functions = {}
_lines = {}
_known = {}


def _describe_value(value, deep=2):
    shape = getattr(value, "shape", None)
    if shape is not None and not isinstance(value, type):
        try:
            return ["array", [int(size) for size in shape]] if len(shape) else ["number"]
        except (TypeError, ValueError, RuntimeError):
            return [type(value).__name__]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return [type(value).__name__]
    if isinstance(value, (int, float)):
        return ["number"]
    if isinstance(value, (list, tuple)) and deep:
        return ["list", len(value), [_describe_value(one, deep - 1) for one in value[:4]]]
    if isinstance(value, dict) and deep:
        return ["dict", len(value), [_describe_value(one, deep - 1) for one in list(value.values())[:8]]]
    return [type(value).__name__]


def _hash_array(value):
    """Return a hash of an array's values; empty for other values and large arrays."""
    try:
        if not value.shape or isinstance(value, type):
            return ""
        array = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        return hashlib.sha256(array.tobytes()).hexdigest() if array.nbytes <= MAX_HASHED_BYTES else ""
    except (AttributeError, TypeError, ValueError, RuntimeError, MemoryError):  # not comparable
        return ""


def _disable_optimizers():
    """Turn the steps of all PyTorch optimizers into no-ops."""
    try:
        import torch
    except ImportError:
        return
    begin = torch.optim.Optimizer.__init__

    def still(self, closure=None, **given):
        return closure() if closure is not None else None

    def __init__(self, *given, **named):
        begin(self, *given, **named)
        self.step = types.MethodType(still, self)

    torch.optim.Optimizer.__init__ = __init__


def _get_note(code):
    """Return the record of a function; None if it is not in the checkout."""
    known = _known.get(code)
    if known is None:
        path = code.co_filename
        path = path if os.path.isabs(path) or path.startswith("<") else os.path.join(_root, path)
        if not path.startswith(_root) or "site-packages" in path:
            known = False
        else:
            path = path[len(_root) :]
            line = 0 if code.co_name == "<module>" else code.co_firstlineno  # a function may begin on line 1
            key = f"{path}:{line}"
            name = getattr(code, "co_qualname", None) or code.co_name
            new = {"path": path, "name": name, "line": line, "calls": 0, "callers": {}, "recorded_calls": []}
            known = _functions.setdefault(key, new), _lines.setdefault(path, set()), key
        _known[code] = known
    return known or None


def _find_caller(frame):
    for _ in range(60):
        frame = frame.f_back
        if frame is None:
            return ""
        known = _get_note(frame.f_code)
        if known:
            return known[2]
    return ""


def _trace_call(frame, event, argument):
    if event != "call":
        return None
    code = frame.f_code
    known = _get_note(code)
    if known is None:
        return None
    note, lines, _ = known
    note["calls"] += 1
    if note["calls"] > MAX_TRACED_CALLS:
        return None
    caller = _find_caller(frame)
    note["callers"][caller] = note["callers"].get(caller, 0) + 1
    seen = None
    if note["calls"] <= MAX_DESCRIBED_CALLS:
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = {name: frame.f_locals.get(name) for name in names}
        seen = {
            "argument_kinds": {name: _describe_value(value) for name, value in given.items()},
            "return_kind": ["None"],
            "digests": {name: digest for name, value in given.items() for digest in [_hash_array(value)] if digest},
        }
        note["recorded_calls"].append(seen)
    lines.add(frame.f_lineno)

    def local(frame, event, argument):
        if event == "line":
            lines.add(frame.f_lineno)
        elif event == "return" and seen is not None:
            seen["return_kind"] = _describe_value(argument)
        return local

    return local


def _write_notes():
    sys.settrace(None)
    try:
        with open(os.path.join(_folder, f"trace-{os.getpid()}.json"), "w") as file:
            lines = {path: sorted(lines) for path, lines in _lines.items()}
            json.dump({"functions": list(_functions.values()), "lines": lines}, file)
    except OSError:
        pass


if _folder:
    atexit.register(_write_notes)
    threading.settrace(_trace_call)
    sys.settrace(_trace_call)
if os.environ.get("SCIENTIST_UNTAUGHT"):
    _disable_optimizers()
