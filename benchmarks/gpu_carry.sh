#!/usr/bin/env bash
# Make the folder that a GPU machine without network access needs to run benchmarks.gpu, and print the command to run.
#
#   benchmarks/gpu_carry.sh [FOLDER] [PYTHON]      default: .carry, for Python 3.12
#
# Run this where a package index is reachable, after `make setup`. FOLDER gets this project as a wheel, wheels of
# its requirements except benchmarks/gpu_study/given.txt (installed on the machine, with PyTorch), and bubblewrap. At
# most 60 MiB. Run the command in a copy of this checkout that contains FOLDER.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-.carry}
version=${2:-3.12}
python=.venv/bin/python
limit=$((60 * 1024))  # KiB
rm -rf "$folder"
mkdir -p "$folder"
$python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$folder" .
# The closure of the requirements in the versions installed here, except what the machine has.
wanted=$(VERSION=$version $python - <<'PY'
import os
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

target = {"python_version": os.environ["VERSION"], "python_full_version": os.environ["VERSION"] + ".0"}
normal = lambda name: re.sub(r"[-_.]+", "-", name).lower()
unused = {"uv", "zstandard", "tiktoken"}  # packages are not installed there; the others are extras of what is carried
given = unused | {normal(re.split(r"[=<>]", line)[0].strip()) for line in
         Path("benchmarks/gpu_study/given.txt").read_text().splitlines() if line and not line.startswith("#")}
seen: set[tuple[str, str]] = set()
pinned: dict[str, str] = {}


def walk(name: str, extras: set[str]) -> None:
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return  # of another platform or version
    for text in found.requires or ():
        need = Requirement(text)
        own = normal(need.name)
        if need.marker is not None and not any(need.marker.evaluate(target | {"extra": one}) for one in extras | {""}):
            continue
        if own in given or (own, ",".join(sorted(need.extras))) in seen:
            continue
        seen.add((own, ",".join(sorted(need.extras))))
        try:
            pinned[own] = distribution(own).version
        except PackageNotFoundError:
            pinned[own] = ""
        walk(own, need.extras)


project = re.search(r'^name = "(.+)"$', Path("pyproject.toml").read_text(), re.M)[1]
walk(project, set())
print(" ".join(f"{name}=={version}" if version else name for name, version in sorted(pinned.items())))
PY
)
platforms=()
for number in 39 35 34 31 28 27 24 17 12 5; do platforms+=(--platform "manylinux_2_${number}_x86_64"); done
# shellcheck disable=SC2086
$python -m pip download --quiet --no-deps --only-binary=:all: --python-version "$version" --implementation cp \
    "${platforms[@]}" --platform manylinux2014_x86_64 --platform manylinux1_x86_64 -d "$folder" $wanted 2> >(grep -v "is ignored: it is neither" >&2)
(cd "$folder" && apt-get download --quiet bubblewrap >/dev/null 2>&1) \
    || echo "gpu_carry: bubblewrap could not be downloaded: code will not be sandboxed there" >&2
size=$(du -sk "$folder" | cut -f1)
echo "gpu_carry: $(find "$folder" -name '*.whl' | wc -l) wheels, $((size / 1024)) MiB in $folder" >&2
[ "$size" -le "$limit" ] || { echo "gpu_carry: more than $((limit / 1024)) MiB: add what the machine has to benchmarks/gpu_study/given.txt" >&2; exit 1; }
cat <<COMMAND
for f in $folder/*.deb; do dpkg -x \$f /tmp/carried; done; export PATH=/tmp/carried/usr/bin:\$PATH PYTHONUNBUFFERED=1; python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir $folder/*.whl && python3 -m benchmarks.gpu --minutes 8 --out \${OUT:-.}/gpu.json
COMMAND
