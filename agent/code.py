"""A user's repository as the subject of a run: checked before anything is made, copied, and opened for its cells."""

from __future__ import annotations

import re
import shlex
from pathlib import Path, PurePosixPath

from labwright.agent.data import dataset_of
from labwright.agent.settings import Settings
from labwright.inspector.provenance import Place
from labwright.models.roles.patching import ARM_PATCH
from labwright.models.roles.planning import REPOSITORY_PLAN
from labwright.record.claims.means import winner
from labwright.record.errors import WrongUse
from labwright.record.expected import parse_expected
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder, read_source
from labwright.record.nouns.data import DataPlan, arm_of
from labwright.record.repository_source import OVERRIDES, Code, arm_in, code_in
from labwright.record.source import file_of
from labwright.sandbox.isolation.mounts import KernelConfig
from labwright.sandbox.isolation.probe import isolation_of
from labwright.sandbox.repository.cells import Repository
from labwright.sandbox.repository.command import check_ground
from labwright.sandbox.repository.environment import environment_for
from labwright.sandbox.repository.hiding import Hidden
from labwright.sandbox.repository.metric import PREDICTIONS, parse_metric
from labwright.sandbox.repository.mirror import Mirror
from labwright.sandbox.repository.predictions import check_truth
from labwright.stages.bench import UserRepository
from labwright.stages.repository.code import code_in as parsed
from labwright.stages.repository.commands import missing_script
from labwright.stages.repository.planning import repository_faults

PLACES = 4
"""Lines of a repository that are shown at most of one number."""


def mirror_in(folder: RunFolder) -> Mirror:
    """The run's copy of the repository."""
    return Mirror(folder.root / "code" / "mirror")


def check_code(settings: Settings) -> None:
    """Refuse what cannot be run. Raises `WrongUse`."""
    code = settings.code
    if code.repository is None:
        if code.command or code.metric or code.predictions or code.truth:
            raise WrongUse(
                "--command, --metric, --predictions and --truth go with --code: name the repository that they are of"
            )
        return
    _check_scored(settings)
    if not code.command or not (code.metric or code.predictions):
        raise WrongUse(
            f"--code needs {'--metric' if code.command else '--command'}: how the repository is run, with "
            "{seed} where its seed goes, and where it leaves its number"
        )
    try:
        words = shlex.split(code.command)
    except ValueError as error:
        raise WrongUse(f"--command {code.command!r} is no command line ({error})") from None
    if any(OVERRIDES in word and word != OVERRIDES for word in words):
        raise WrongUse(f"{OVERRIDES} stands for several words: let it stand alone in --command")
    if code.metric:
        parse_metric(code.metric)
    hidden_in(settings)
    if code.expect:
        parse_expected(code.expect)
    if lacking := missing_script(words, Mirror.texts_of(code.repository, dirty=code.dirty)):
        raise WrongUse(f"--command {code.command!r}: there is no {lacking} in {code.repository}")


def check_words(plan: DataPlan, settings: Settings) -> None:
    """Refuse a plan that is none of the repository's. Raises `WrongUse`."""
    code = settings.code
    if code.repository is None:
        if any(arm.words for arm in plan.arms):
            raise WrongUse("the plan has words for a repository's command: name the repository with --code")
        return
    read = parsed(Mirror.texts_of(code.repository, dirty=code.dirty))
    for fault in repository_faults(plan, dataset_of(code.repository), code.as_command, read):
        raise WrongUse(fault)
    plain = [arm.name for arm in plan.arms if arm.role != "baseline" and not arm.words]
    if plain and settings.models.candidates(ARM_PATCH)[0].name == "offline":
        raise WrongUse(
            f"arm {plain[0]!r} has no words, so that it would be the repository as it is: say in `words` "
            "what makes it, or name a model (--model) that makes it by a patch"
        )


def check_planner(settings: Settings) -> None:
    """Refuse to have a study planned by a model that plans none. Raises `WrongUse`."""
    if settings.models.candidates(REPOSITORY_PLAN)[0].name == "offline":
        raise WrongUse(
            "the offline model plans no study of a repository: give --plan, a data plan whose arms say in "
            "`words` what makes them, or name a model with --model"
        )


def hidden_in(settings: Settings) -> Hidden:
    """Which lines of output are withheld. Raises `WrongUse`."""
    try:
        return Hidden.of(settings.code.test_metric, settings.code.hide)
    except re.error as error:
        raise WrongUse(f"--hide: the regular expression {error.pattern!r} cannot be read: {error}") from None


def _check_scored(settings: Settings) -> None:
    """Refuse predictions and labels that cannot be scored. Raises `WrongUse`, `RepositoryError`."""
    code = settings.code
    if bool(code.predictions) != (code.truth is not None):
        raise WrongUse(
            "--predictions FILE and --truth FILE go together: what the command leaves, and the labels that "
            "it is scored against"
        )
    if code.truth is None or code.repository is None:
        return
    if code.metric or code.test_metric:
        raise WrongUse("--predictions are scored by the plan's metrics: leave --metric and --test-metric out")
    if settings.sandbox.network == "on":
        raise WrongUse("--truth is withheld, and sandbox.network=on lets code reach it by the network: turn it off")
    parse_metric(f"{PREDICTIONS}:{code.predictions}@")  # within the checkout: what lies there is removed
    check_truth(code.truth, code.repository, list(code.mounts.values()))


def copied(settings: Settings, folder: RunFolder) -> Settings:
    """The settings with where the repository stands, which was copied into the run. Raises `RepositoryError`."""
    code = settings.code
    if code.repository is None:
        return settings
    found = mirror_in(folder).take(code.repository, dirty=code.dirty)
    return settings.model_copy(
        update={
            "code": code.model_copy(
                update={"repository": code.repository.absolute(), "commit": found.commit, "tree": found.tree}
            )
        }
    )


def taken(settings: Settings, folder: RunFolder) -> Settings:
    """The same, once its environment could be opened. Raises `RepositoryError`, `ExecutorError`."""
    settings = copied(settings, folder)
    if settings.code.repository is None:
        return settings
    packages = dict(opened(settings, folder).environment.packages)
    return settings.model_copy(update={"code": settings.code.model_copy(update={"packages": packages})})


def opened(settings: Settings, folder: RunFolder) -> Repository:
    """What its cells are run from. Raises `RepositoryError`, `ExecutorError`."""
    code, mirror = settings.code, mirror_in(folder)
    environment = environment_for(
        mirror.texts(code.tree),
        settings.sandbox,
        python=code.python,
        mounts={name: Path(path) for name, path in code.mounts.items()},
        known=code.packages,
    )
    check_ground(environment.ground, KernelConfig(settings.sandbox, isolation_of(settings.sandbox), folder.cache))
    return Repository(
        mirror, environment, hidden_in(settings), tuple(shlex.split(code.resume)), settings.sandbox.device
    )


def under_study(settings: Settings, folder: RunFolder, environment: str = "") -> UserRepository | None:
    """What stages know of the repository; None where experiments are written."""
    code = settings.code
    if code.repository is None:
        return None
    return UserRepository(
        Code(
            commit=code.commit,
            tree=code.tree,
            command=code.as_command,
            name="",
            test_metric=code.test_metric,
            predictions=code.predictions,
            environment=environment,
        ),
        mirror_in(folder),
        parse_expected(code.expect) if code.expect else None,
        code.frozen,
        code.space,
    )


def lines_that_write(run: Path, state: RunState, key: str) -> tuple[Place, ...]:
    """Where in its repository, as the arm of a claim changes it, a number is written, after the patch of this arm;
    empty where nothing is found.

    What is looked for: the metric's last key or its file's name as a text in Python code; of `stdout:` what the
    expression says before its number. The line is that of the tree which ran.
    """
    split, _, rest = key.partition("/")
    arm = arm_of(rest.split("/")[2].partition(".")[0].partition("~")[0]) if rest.count("/") >= 2 else ""
    node = next(
        (one.id for one in reversed(state.nodes.values()) if arm in one.arms and one.status == "good"), winner(state)
    )
    if node is None or (code := code_in(source := read_source(RunFolder(run).source(node)))) is None:
        return ()
    mirror, made = Mirror(run / "code" / "mirror"), arm_in(source, arm)
    texts = {
        path: text.splitlines()
        for path, text in mirror.texts(mirror.patched(code.tree, made.patch)).items()
        if path.endswith(".py")
    }
    files = re.findall(r"^\+\+\+ b/(.+)$", made.patch, re.MULTILINE)
    patch = (Place(file=f"nodes/{node}/source/{file_of(arm, '.diff')}", line=1, text=f"changes {', '.join(files)}"),)
    metric = parse_metric(code.test_metric if split == "test" and code.test_metric else code.command.metric)
    words = (
        [re.split(r"[(\[\\]", metric.name)[0].strip()]
        if metric.kind == "stdout"
        else [metric.name.rpartition(".")[2], PurePosixPath(metric.place).name]
    )
    for word in filter(None, words):
        found = [
            Place(file=f"{code.commit[:12]}:{path}", line=number, text=line.strip())
            for path, lines in texts.items()
            for number, line in enumerate(lines, 1)
            if word in line and (metric.kind == "stdout" or re.search(rf"[\"'/]{re.escape(word)}[\"']", line))
        ]
        if found:
            return (*(patch if made.patch else ()), *found[:PLACES])
    return patch if made.patch else ()
