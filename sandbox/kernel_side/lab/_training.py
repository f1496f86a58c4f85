"""Count training in this process without cooperation of the code: steps, rows and parameters, for torch and
scikit-learn.

It counts calls and does not change any computation. Limits: other training (in numpy, in other processes, in compiled
functions) is not seen; code can manipulate the counts.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np


class TrainingCounters:
    """Counts of this process; 0 if none were observed."""

    steps = 0
    """Steps of torch optimizers, and iterations reported by scikit-learn estimators."""
    rows = 0
    """Rows passed to a model before its step (of several models, to the first), or to a scikit-learn fit."""
    parameters = 0
    """Largest set of parameters passed to an optimizer, or fitted by an estimator."""
    depth = 0
    """Current nesting depth of module calls."""
    rows_by_module: ClassVar[dict[int, int]] = {}
    """Outermost modules called while training (each by the `id` of a parameter) -> rows since its last step."""
    running_fits: ClassVar[list[int]] = []
    """`id` of the estimators being fitted, outermost first."""


def read_counters() -> dict[str, int | None]:
    """Return the fields of `record.schema.nodes.TrainingCounts`."""
    return {name: getattr(TrainingCounters, name) or None for name in ("steps", "rows", "parameters")}


def watch_torch(torch: Any) -> None:
    """Count optimizer steps, and the rows passed to modules while training.

    Calls are wrapped because a global hook would slow down every call of a module.
    """
    call = torch.nn.Module.__call__
    compiling, tracing, grad = torch.compiler.is_compiling, torch.jit.is_tracing, torch.is_grad_enabled
    marks: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
    sizes_by_optimizer: weakref.WeakKeyDictionary[Any, tuple[int, dict[int, int]]] = weakref.WeakKeyDictionary()

    def note(module: Any, given: Iterable[Any]) -> None:
        if not module.training or not (module._parameters or module._modules) or not grad() or tracing():
            return
        mark = marks.get(module)
        if mark is None:
            mark = marks[module] = next(id(one) for one in module.parameters() if one.requires_grad)
        first = next(one for one in given if isinstance(one, torch.Tensor))
        TrainingCounters.rows_by_module[mark] = TrainingCounters.rows_by_module.get(mark, 0) + first.shape[0]

    @functools.wraps(call)
    def _wrapped_call_impl(module: Any, /, *args: Any, **named: Any) -> Any:  # a name used by torch, which skips it
        if compiling():
            return call(module, *args, **named)
        if not TrainingCounters.depth:
            _call_quietly(note, module, (*args, *named.values()))
        TrainingCounters.depth += 1
        try:
            return call(module, *args, **named)
        finally:
            TrainingCounters.depth -= 1

    def stepped(optimizer: Any, *_: object) -> None:
        groups, sizes = sizes_by_optimizer.get(optimizer, (0, {}))
        if groups != len(optimizer.param_groups):
            every = [one for group in optimizer.param_groups for one in group["params"]]
            sizes = {id(one): one.numel() for one in every if one.requires_grad}
            sizes_by_optimizer[optimizer] = len(optimizer.param_groups), sizes
            TrainingCounters.parameters = max(TrainingCounters.parameters, sum(sizes.values()))
        marked = [mark for mark in TrainingCounters.rows_by_module if mark in sizes]
        rows = [TrainingCounters.rows_by_module.pop(mark) for mark in marked]
        TrainingCounters.steps += 1
        TrainingCounters.rows += sum(rows[:1])

    torch.nn.Module.__call__ = _wrapped_call_impl
    optim: Any = sys.modules["torch.optim.optimizer"]
    optim.register_optimizer_step_post_hook(functools.partial(_call_quietly, stepped))


def watch_sklearn(base: Any) -> None:
    """Count fits of estimators, including nested ones; `base` is the module `sklearn.base`, just imported.

    Every fit in scikit-learn is decorated by one function of that module.
    """
    given: Callable[..., Any] | None = getattr(base, "_fit_context", None)
    if given is None:
        return

    def fit_context(*args: Any, **named: Any) -> Callable[..., Any]:
        def decorate(fit: Callable[..., Any]) -> Callable[..., Any]:
            decorated = given(*args, **named)(fit)

            @functools.wraps(decorated)
            def counted(estimator: Any, *args: Any, **named: Any) -> Any:
                above = tuple(TrainingCounters.running_fits)
                TrainingCounters.running_fits.append(id(estimator))
                try:
                    done = decorated(estimator, *args, **named)
                finally:
                    TrainingCounters.running_fits.remove(id(estimator))
                if id(estimator) not in above:
                    _call_quietly(_record_fit, estimator, None if above else args[0] if args else named["X"])
                return done

            return counted

        return decorate

    base._fit_context = fit_context


def _record_fit(estimator: Any, rows: Any) -> None:
    """Record the counts of an estimator that predicts; `rows` is the number of rows of an outermost fit."""
    if not hasattr(estimator.__class__, "predict"):
        return
    if rows is not None:
        TrainingCounters.rows += rows.shape[0] if hasattr(rows, "shape") else len(rows)
    fitted = [getattr(estimator, name, ()) for name in ("coef_", "intercept_")]
    layers = [one for name in ("coefs_", "intercepts_") for one in getattr(estimator, name, ())]
    TrainingCounters.parameters = max(TrainingCounters.parameters, sum(map(np.size, fitted + layers)))
    TrainingCounters.steps += int(np.sum(getattr(estimator, "n_iter_", 0)))


def _call_quietly(act: Callable[..., None], *args: Any) -> None:
    try:
        act(*args)
    except Exception:  # counting must never stop the code
        return
