"""The packages of a run: resolved with uv to a lock that lists each file with its hash, and installed into the store
that runs share (`sandbox.content_store`).

Guarantees: only wheels are used, so no code of a package runs; packages of the interpreter keep their versions.

uv reads its own configuration (`UV_*`, uv.toml), not that of pip. If no index answers, uv's cache is used. Packages
built against torch (such as torchvision) must match the interpreter's torch. If that has a label, such as 2.13.0+cpu,
they come only from PyTorch's index for that label.

Limits: another machine may resolve different packages. Packages in a lock are not resolved again.

Guarantees: a set of packages appears atomically; concurrent runs install it only once; on each use every file is
verified, and the set is installed again if one differs. In a sandbox experiments cannot write to it; without one, only
file permissions prevent that. Limits: unused sets are kept until `scientist store --prune`, which may only be used
while no run is active.

Also the fingerprint of everything else, besides code, data and seed, on which an experiment's values depend.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import VERSION_PATTERN

from labwright.record.run_folder import write_file
from labwright.record.schema.nodes import InstalledPackages
from labwright.record.untrusted_files import remove_tree
from labwright.sandbox.content_store import ContentStore, compute_key, default_store_root
from labwright.sandbox.gpus import GpuDevice, try_lock
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.job import PackageError
from labwright.sandbox.settings import SandboxSettings

# --- requirements -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AllowedRequests:
    """The items that a planner may request, as listed by the user."""

    packages: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """OWNER/NAME@REVISION."""
    data: tuple[str, ...] = ()
    """NAME=hf:OWNER/SET with options, as for `--data`."""


def parse_allowed(words: Iterable[str]) -> AllowedRequests:
    """Split `sandbox.allowed` into its kinds, without prefixes. Raises `PackageError` for an invalid package."""
    packages, models, data = list[str](), list[str](), list[str]()
    for word in words:
        kind, _, rest = word.partition(":")
        {"model": models, "data": data}.get(kind, packages).append(rest.strip() if kind in ("model", "data") else word)
    parse_requirements(packages, "sandbox.allowed")
    return AllowedRequests(tuple(packages), tuple(models), tuple(data))


def parse_requirements(words: Iterable[str], setting: str = "sandbox.packages") -> dict[str, str]:
    """Parse the packages of a setting, such as `timm`, `timm>=1.0` or `gymnasium[all]`: normalised name -> requirement.

    Raises `PackageError` for a repeated name and for anything but a package of an index: uv reads other lines as
    options, includes files, or runs the code of a folder, and requirements of a repository are written by strangers.
    """
    found: dict[str, str] = {}
    for word in map(str.strip, words):
        try:
            parsed = Requirement(word if word.isprintable() else "")
        except (InvalidRequirement, RecursionError):
            raise PackageError(f"{setting}: {word[:100]!r} is not a package: write NAME or NAME==VERSION") from None
        if parsed.url or parsed.marker:
            odd = "an address" if parsed.url else "a condition"
            raise PackageError(f"{setting}: {word!r} has {odd}: give only names (and versions), as in an index")
        if (name := canonicalize_name(parsed.name)) in found:
            raise PackageError(f"{setting} lists {name} twice: remove one")
        found[name] = word
    return found


# --- uv ---------------------------------------------------------------------------------------------------------------

TOTAL_TIMEOUT_SECONDS = 900.0
"""Total time limit for resolving and installing the packages of a run, in seconds."""
_NO_ANSWER_PATTERN = re.compile(
    r"Request failed|Failed to (fetch|download)|error sending request|dns error|timed out|"
    r"not found in the cache|network was disabled|Connectivity is disabled|"
    r"Network (is )?unreachable",
    re.IGNORECASE,
)
TORCH_INDEX = "the PyTorch index"
_IGNORED_PREFIXES = ("warning:", "Using ", "Resolved ", "Prepared ")


class IndexUnavailable(PackageError):
    """Raised if no package index answers."""


@dataclass
class Uv:
    """uv for one interpreter, with one time limit for all calls."""

    python: str
    folder: Path
    """Working folder, outside any project."""
    is_offline: bool = False
    """Whether no index answered, so that files and answers of earlier calls were used."""

    def __post_init__(self) -> None:
        self._ends = time.monotonic() + TOTAL_TIMEOUT_SECONDS

    def run(self, command: str, *arguments: str, stdin: str = "") -> str:
        """Run a command of uv and return its standard output. Raises `PackageError` or `IndexUnavailable` with its
        shortened error."""
        words, error_type = [*command.split(), *arguments], PackageError
        ran = self._run(words, stdin)
        error = ran.stderr
        if ran.returncode and _NO_ANSWER_PATTERN.search(error) and "Hash mismatch" not in error:
            ran, error_type, self.is_offline = self._run([*words, "--offline"], stdin), IndexUnavailable, True
        if ran.returncode:
            raise error_type(_summarize_error(error))
        return ran.stdout

    def _run(self, arguments: Sequence[str], given: str) -> subprocess.CompletedProcess[str]:
        from uv import find_uv_bin

        words = [find_uv_bin(), *"--color never --no-progress --no-python-downloads".split(), *arguments]
        words += [*get_torch_backend_option(inspect_interpreter(self.python).packages), "--python", self.python]
        try:
            return subprocess.run(
                words,
                input=given,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=max(0.001, self._ends - time.monotonic()),
                check=False,
                cwd=self.folder,
            )
        except subprocess.TimeoutExpired:
            raise PackageError(f"this took more than {TOTAL_TIMEOUT_SECONDS:g} s") from None
        except OSError as error:
            raise PackageError(f"uv cannot be started ({error})") from None


def get_torch_backend_option(packages: Mapping[str, str]) -> list[str]:
    """Return the uv option for the build label of the interpreter's torch; empty if it has none."""
    label = packages.get("torch", "").partition("+")[2]
    return ["--torch-backend", label] if re.fullmatch(r"cpu|xpu|cu\d+|rocm[\d.]+", label) else []


@contextmanager
def open_uv(python: str) -> Generator[Uv]:
    """Yield a `Uv` in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="scientist-uv-", ignore_cleanup_errors=True) as folder:
        yield Uv(python, Path(folder))


def _summarize_error(text: str) -> str:
    """Summarise an error of uv in one line, without addresses."""
    lines = [line.strip() for line in text.splitlines() if not line.startswith(_IGNORED_PREFIXES)]
    causes = [line.removeprefix("cause:").strip() for line in lines if line and not line.startswith("hint:")]
    if len(causes) > 1 and causes[0].startswith("error: No solution"):
        causes = causes[1:]
    summary = re.sub(r"\w+://\S*/whl/[^\s)`]*", TORCH_INDEX, " ".join(causes).removeprefix("error: "))
    summary = re.sub(r"\w+://[^\s)`]+", "the index", summary)
    summary = re.sub(r",? we can conclude that your requirements are unsatisfiable\.?", "", summary)
    return summary[:400].strip() or "it failed"


# --- locks ------------------------------------------------------------------------------------------------------------

_PIN_PATTERN = re.compile(r"[\w.-]+==[\w.+!-]+(?: --hash=sha256:[0-9a-f]{64})+")


@dataclass(frozen=True)
class PackageLock:
    """Packages to install as wheels: for each a version, and the sha256 of each of its permitted files; and its
    origin."""

    pins: tuple[str, ...]
    """Lines of the form NAME==VERSION --hash=sha256:..."""
    requested: tuple[str, ...] = ()
    until: str = ""
    """When it was resolved."""
    is_from_cache: bool = False
    """Whether no index answered, so that its earlier answers were used."""

    @property
    def text(self) -> str:
        """The content of the lock file: a list of requirements that pip and uv can read."""
        return "# wheels\n" * bool(self.pins) + "".join(f"{pin}\n" for pin in self.pins)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def packages(self) -> dict[str, str]:
        """Name -> version of the packages that experiments can import."""
        return dict(pin.partition(" ")[0].split("==") for pin in self.pins)


def read_lock(path: Path, sha256: str = "") -> PackageLock:
    """Read a lock file. Raises `PackageError` if it is invalid or does not have the given hash."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PackageError(f"the lock file {path} cannot be read ({error}): restore it") from None
    lock = PackageLock(tuple(filter(_PIN_PATTERN.fullmatch, text.splitlines())))
    if lock.text != text or (sha256 and lock.sha256 != sha256):
        raise PackageError(f"{path} is not the lock file in the record: restore it")
    return lock


WHEELS_ONLY_OPTIONS = ("--only-binary", ":all:")


def lock_packages(uv: Uv, requirements: Sequence[str], installed: Mapping[str, str]) -> PackageLock:
    """Lock the packages to install in addition to the interpreter's. Raises `PackageError`."""
    missing = _resolve_missing(uv, requirements, installed)
    if not missing:
        return PackageLock(())
    compile_lock = "pip compile --generate-hashes --no-deps --no-header --no-annotate"
    wanted = "\n".join(f"{name}=={version}" for name, version in missing.items())
    text = uv.run(compile_lock, *WHEELS_ONLY_OPTIONS, "-", stdin=wanted)
    pins = text.replace(" \\\n    ", " ").splitlines()
    if odd := [pin for pin in pins if not _PIN_PATTERN.fullmatch(pin)]:
        raise PackageError(f"the index gives no sha256 of {odd[0]}")
    return PackageLock(tuple(pins))


def _resolve_missing(uv: Uv, requirements: Sequence[str], installed: Mapping[str, str]) -> dict[str, str]:
    """Return the packages that the interpreter lacks: name -> version. Raises `PackageError`."""
    constraints = uv.folder / "constraints.txt"
    lines = [
        f"{name}=={text}\n" for name, text in installed.items() if re.fullmatch(VERSION_PATTERN, text, re.X | re.I)
    ]
    constraints.write_text("".join(lines))
    command = "pip install --dry-run --output-format json --break-system-packages --requirements -"
    given = "\n".join(parse_requirements(requirements).values())
    report = json.loads(uv.run(command, "--constraints", str(constraints), *WHEELS_ONLY_OPTIONS, stdin=given))
    return {change["name"]: change["version"] for change in report["changes"] if change["action"] == "installed"}


def explain_error(error: PackageError, wanted: Mapping[str, str], installed: Mapping[str, str]) -> PackageError:
    """Return the error with the packages' names and advice, for the user."""
    pinned = {canonicalize_name(name): f"{name} {version}" for name, version in installed.items()}
    message, names = str(error), ", ".join(word for name, word in wanted.items() if name not in pinned)
    if isinstance(error, IndexUnavailable):
        own = " (or install packages that depend on torch into sandbox.python)" if TORCH_INDEX in message else ""
        return IndexUnavailable(
            f"the package index is unreachable, and {names} {'are' if ',' in names else 'is'} not in the store: "
            f"run `scientist prefetch` with a network, with the same settings and interpreter{own}; {message[:160]}"
        )
    advice = "; check the name" if "was not found" in message else ""
    if "wheels" in message:
        advice = "; if you trust its source, install it into sandbox.python"
    if fixed := [shown for name, shown in pinned.items() if f"{name}=={shown.partition(' ')[2]}" in message]:
        advice = f"; {fixed[0]} of sandbox.python cannot be changed: request another version"
    return PackageError(f"cannot install {', '.join(wanted.values())}: {message}{advice}")


# --- the store --------------------------------------------------------------------------------------------------------

POLL_SECONDS = 0.1
"""Seconds between checks whether another run has finished a folder."""


@dataclass(frozen=True)
class PackageOverlay:
    """Installed packages as used by kernels."""

    folder: Path | None
    """None if the interpreter already has all packages."""
    lock: PackageLock
    installed: InstalledPackages


def resolve_packages(requirements: Sequence[str], settings: SandboxSettings) -> PackageLock:
    """Resolve packages with the index, or with its earlier answers if it does not answer. Raises `PackageError`."""
    wanted = parse_requirements(requirements)
    installed = inspect_interpreter(settings.python).packages
    try:
        with open_uv(settings.python) as uv:
            lock = lock_packages(uv, list(wanted.values()), installed)
            now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
            return replace(lock, requested=tuple(requirements), until=now, is_from_cache=uv.is_offline)
    except PackageError as error:
        raise explain_error(error, wanted, installed) from error
    except OSError as error:
        raise _unwritable_error(error) from None


def provide_packages(lock: PackageLock, settings: SandboxSettings) -> PackageOverlay:
    """Return the packages of a lock, installing them into the store if necessary. Raises `PackageError`."""
    began, folder, shared = time.monotonic(), None, True
    if lock.packages:
        try:
            folder, shared = _find_or_install(lock, settings)
        except OSError as error:
            raise _unwritable_error(error) from None
    runs = inspect_interpreter(settings.python)
    size = 0 if folder is None else sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
    installed = InstalledPackages(
        sha256=lock.sha256,
        packages=lock.packages,
        asked=lock.requested,
        until=lock.until,
        python=runs.version,
        bytes=size,
        seconds=round(time.monotonic() - began, 2),
        shared=shared,
    )
    return PackageOverlay(folder, lock, installed)


def _find_or_install(lock: PackageLock, settings: SandboxSettings) -> tuple[Path, bool]:
    """Return the folder of a lock's packages, and whether it existed undamaged. Raises `PackageError`, `OSError`."""
    store = ContentStore(settings.store or default_store_root())
    version = inspect_interpreter(settings.python).version.split(".")[:2]
    place = json.dumps([lock.text, version, sys.platform, platform.machine()])
    pointer = store.root / "packages" / hashlib.sha256(place.encode()).hexdigest()[:32]
    pointer.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + TOTAL_TIMEOUT_SECONDS
    with ExitStack() as locks:
        while not try_lock(pointer.with_suffix(".lock"), locks):
            if time.monotonic() > until:
                raise PackageError(f"another process has been creating {pointer} for a long time: stop it or wait")
            time.sleep(POLL_SECONDS)
        key = pointer.read_text() if pointer.is_file() else "missing"
        if (folder := store.find(key)) is not None and compute_key(folder) == key:
            return folder, True
        remove_tree(store.root / key, ignore_errors=True)
        key = _install_lock(lock, store, settings)
        write_file(pointer, key)
        return store.root / key / "content", False


def _install_lock(lock: PackageLock, store: ContentStore, settings: SandboxSettings) -> str:
    """Install the packages of a lock into the store and return their key there."""
    names = ", ".join(f"{name} {version}" for name, version in lock.packages.items())
    install = "pip install --no-deps --link-mode copy --compile-bytecode --require-hashes --requirements -"
    part = Path(tempfile.mkdtemp(prefix=".part-", dir=store.root))
    content = part / "content"
    try:
        with open_uv(settings.python) as uv:
            uv.run(install, "--target", str(content), *WHEELS_ONLY_OPTIONS, stdin="\n".join(lock.pins))
        for path in (content, *content.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & ~0o222)
        store.finish(part, key := compute_key(content), "packages", names)
        return key
    except PackageError as error:
        version = inspect_interpreter(settings.python).version
        raise PackageError(f"cannot install {names} from the lock with Python {version}: {error}") from None
    finally:
        remove_tree(part, ignore_errors=True)


def _unwritable_error(error: OSError) -> PackageError:
    return PackageError(
        f"cannot write to {error.filename or 'the store'} ({error.strerror}): make it writable, or set another folder "
        "(sandbox.store)"
    )


# --- the packages of a run --------------------------------------------------------------------------------------------


@dataclass
class RunPackages:
    """The packages that a plan may request, and their installation. `add_packages` receives what was installed."""

    settings: SandboxSettings
    add_packages: Callable[[PackageOverlay], None] = lambda _: None
    _found: dict[tuple[str, ...], PackageLock] = field(default_factory=dict[tuple[str, ...], PackageLock])

    @property
    def names(self) -> tuple[str, ...]:
        """Return the packages that a plan may request. Raises `PackageError`."""
        return tuple(self._listed_requirements.values())

    def find_faults(self, requested: Iterable[str]) -> tuple[str, ...]:
        """Return the errors in a plan's package requests, one sentence each. May query the package index."""
        if not (requested := tuple(requested)):
            return ()
        known = self._listed_requirements.keys() | self._installed_names
        if odd := [name for name in requested if _parse_name(name) not in known]:
            why = f"is not allowed: `packages` may contain {', '.join(self.names) or 'none'}; remove it"
            return tuple(f"package {name!r} {why}" for name in odd)
        try:
            self.find_lock(requested)
        except PackageError as error:
            return (f"`packages`: {error}",)
        return ()

    def find_lock(self, requested: Iterable[str] = ()) -> PackageLock | None:
        """Return the lock of the configured and requested packages; None if there are none. Raises `PackageError`,
        including for the errors that `find_faults` returns."""
        wanted = {_parse_name(name) for name in requested} - self._installed_names
        listed = (word for name, word in self._listed_requirements.items() if name in wanted)
        words = (*self.settings.packages, *listed)
        if not words:
            return None
        if words not in self._found:
            self._found[words] = resolve_packages(words, self.settings)
        return self._found[words]

    def build_overlay(self, requested: Iterable[str] = ()) -> PackageOverlay | None:
        """Install the configured and requested packages. Raises `PackageError`."""
        found = self.find_lock(requested)
        return provide_packages(found, self.settings) if found is not None else None

    def install(self, requested: Iterable[str], lock: Path) -> InstalledPackages | None:
        """Install the packages, write their lock file and call `add_packages`; return None if there are no packages.
        Raises `PackageError`."""
        overlay = self.build_overlay(requested)
        if overlay is None:
            return None
        write_file(lock, overlay.lock.text)
        self.add_packages(overlay)
        return overlay.installed

    @property
    def _listed_requirements(self) -> dict[str, str]:
        return parse_requirements(parse_allowed(self.settings.allowed).packages, "sandbox.allowed")

    @property
    def _installed_names(self) -> set[str]:
        installed = {_parse_name(name) for name in inspect_interpreter(self.settings.python).packages}
        return installed | parse_requirements(self.settings.packages).keys()


def restore_packages(
    installed: InstalledPackages | None, lock: Path, settings: SandboxSettings
) -> PackageOverlay | None:
    """Restore a run's packages by its lock file, from the store or by installing them again. Raises `PackageError`."""
    if installed is None:
        return None
    found = replace(read_lock(lock, installed.sha256), requested=installed.asked, until=installed.until)
    return provide_packages(found, settings)


def _parse_name(word: str) -> str:
    """Return the normalised name of a package, without version and extras."""
    return canonicalize_name(re.split(r"[^\w.-]", word.strip(), maxsplit=1)[0])


# Fingerprint of the conditions, besides code, data and seed, on which an experiment's values depend.

FINGERPRINTED_VARIABLES = ("CUDA_HOME", "LD_LIBRARY_PATH", "TZ")
"""Environment variables visible to experiments that determine the loaded libraries or the local time."""
_SAMPLED_FILE_BYTES = 10**9
"""For larger files, only the size and a sample are hashed."""
_CPU_MODEL_PATTERN = re.compile(r"^(?:model name|Model|CPU part)\s*:\s*(.+)$", re.MULTILINE)
_CPU_FLAGS_PATTERN = re.compile(r"^(?:flags|Features)\s*:\s*(.+)$", re.MULTILINE)


def compute_environment_fingerprint(
    settings: SandboxSettings, devices: Sequence[GpuDevice], packages: PackageOverlay | None = None
) -> str:
    """Return a string that is equal for equal environments. Raises `ExecutorError`.

    It covers interpreter, packages, readable folders, variables, isolation, processor, GPU model and driver, threads
    and determinism. Packages installed for the run are represented by their lock, which lists every file. It leaves out
    the build of a package of a given version, the processor's microcode, the number of GPUs, PATH, the locale, and
    limits (of time, memory, processes, disk), which stop an experiment but should not change its values.
    """
    runs = inspect_interpreter(settings.python)
    is_isolated = settings.isolation != "none" and get_probed_isolation().between_cells
    facts: dict[str, object] = {
        "python": runs.version,
        "platform": runs.platform,
        "packages": sorted(runs.packages.items()),
        "processor": describe_processor(),
        "gpus": sorted({(device.name, device.memory_bytes) for device in devices}),
        "driver": read_driver_version() if devices else "",
        "gpus_per_node": settings.gpus_per_node if devices else 0,
        "threads": settings.threads,
        "deterministic": settings.deterministic,
    }
    more = {
        "installed": packages.installed.sha256 if packages is not None and packages.folder else "",
        "readable": {folder: hash_path(folder) for folder in settings.readable},
        "variables": {name: os.environ[name] for name in FINGERPRINTED_VARIABLES if os.environ.get(name)},
        "isolation": "" if is_isolated else "none",
    }
    return json.dumps(facts | {name: value for name, value in more.items() if value}, sort_keys=True)


def hash_path(place: str) -> str:
    """Return a sha256 over the names and contents of a file, or of all files in a folder.

    Links are hashed by their target name, and links to files by content as well. Python's bytecode caches are ignored.
    """
    digest = hashlib.sha256(_hash_file(place).encode())
    for parent, inner, names in os.walk(place):
        inner[:] = sorted(name for name in inner if name != "__pycache__")
        for name in sorted((*inner, *names)):
            path = os.path.join(parent, name)
            link = os.readlink(path) if os.path.islink(path) else ""
            with suppress(OSError):  # the experiment cannot read it either
                line = f"{os.path.relpath(path, place)}\0{link}\0{_hash_file(path)}\n"
                digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def _hash_file(path: str) -> str:
    """Return the sha256 of a file; empty if it is not a regular file."""
    if not os.path.isfile(path):
        return ""
    stat = os.stat(path)
    return _compute_sha256(path, stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)


@lru_cache(maxsize=2**17)
def _compute_sha256(path: str, size: int, *_state: int) -> str:
    """Cached until the file's state changes, since it is needed for every node."""
    with open(path, "rb") as file:
        if size <= _SAMPLED_FILE_BYTES:
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256(f"{size}".encode())
        for part in range(16):
            file.seek(part * size // 16)
            digest.update(file.read(2**20))
        return digest.hexdigest()


def describe_processor() -> str:
    """Return the model and instruction sets of this machine's processor, as reported by the system."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(errors="replace")
        found = [pattern.search(text) for pattern in (_CPU_MODEL_PATTERN, _CPU_FLAGS_PATTERN)]
        return "; ".join(
            " ".join(sorted(one[1].split()) if n else one[1].split()) for n, one in enumerate(found) if one
        )
    return ""


def read_driver_version() -> str:
    """Return the version line of NVIDIA's driver; empty if there is none."""
    with suppress(OSError):
        return Path("/proc/driver/nvidia/version").read_text(errors="replace").partition("\n")[0]
    return ""
