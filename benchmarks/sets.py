"""Pack a benchmark set into one archive, and read its files as text.

python -m benchmarks.sets FOLDER        writes FOLDER.tar.gz

The same files give the same bytes. To use a generator in a set, unpack it: `tar -xzf SET.tar.gz -C DIR`.
"""

from __future__ import annotations

import gzip
import sys
import tarfile
from pathlib import Path


def read_set(path: Path) -> dict[str, str]:
    """Return the texts of a set by name, in order. Raises `OSError`, `tarfile.TarError`."""
    found: dict[str, str] = {}
    with tarfile.open(path, "r:gz") as packed:
        for member in packed:
            file = packed.extractfile(member)
            if file is not None:
                found[member.name.partition("/")[2]] = file.read().decode()
    return dict(sorted(found.items()))


def write_set(folder: Path) -> Path:
    """Pack the files of a folder into an archive next to it. Raises `OSError`."""
    target = folder.with_name(f"{folder.name}.tar.gz")
    with (
        open(target, "wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as packed,
    ):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                member = tarfile.TarInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}")
                member.size = path.stat().st_size
                with open(path, "rb") as opened:
                    packed.addfile(member, opened)
    return target


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(write_set(Path(name).resolve()))
