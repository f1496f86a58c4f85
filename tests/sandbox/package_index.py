"""A local package index for uv, with handmade wheels and sources."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def build_wheel(
    name: str,
    version: str,
    files: Mapping[str, str],
    *,
    requires: Iterable[str] = (),
    python: str = ">=3.8",
    tag: str = "py3-none-any",
) -> tuple[str, bytes]:
    """Return the file name and bytes of a wheel with these modules."""
    metadata = "\n".join(
        (
            "Metadata-Version: 2.1",
            f"Name: {name}",
            f"Version: {version}",
            f"Requires-Python: {python}",
            *(f"Requires-Dist: {one}" for one in requires),
            "",
            "",
        )
    )
    info = f"{name}-{version}.dist-info"
    texts = {
        **files,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    rows = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in texts.items()]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path, text in (*texts.items(), (f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,", ""]))):
            archive.writestr(path, text)
    return f"{name}-{version}-{tag}.whl", content.getvalue()


def build_source(name: str, version: str) -> tuple[str, bytes]:
    """Return the file name and bytes of a package that has no wheel."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        text = f"Metadata-Version: 1.0\nName: {name}\nVersion: {version}\n".encode()
        entry = tarfile.TarInfo(f"{name}-{version}/PKG-INFO")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return f"{name}-{version}.tar.gz", content.getvalue()


class PackageIndex:
    """Serves packages as JSON; `served` counts downloaded files."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, str]] = {}
        self.served: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/simple"

    def add(self, file: tuple[str, bytes], *, python: str = ">=3.8") -> None:
        self.files[file[0]] = (file[1], python)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def page(self, project: str) -> bytes | None:
        """Return the files of a project, or None if it is unknown."""
        held = [name for name in self.files if name.split("-")[0].lower() == project.replace("-", "_")]
        if not held:
            return None
        return json.dumps(
            {
                "meta": {"api-version": "1.1"},
                "name": project,
                "files": [
                    {
                        "filename": name,
                        "url": f"../../files/{name}",
                        "requires-python": python,
                        "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
                        "size": len(content),
                    }
                    for name, (content, python) in self.files.items()
                    if name in held
                ],
            }
        ).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                *_, folder, name = self.path.rstrip("/").split("/")
                if folder == "files" and name in index.files:
                    index.served += [name] if self.command == "GET" else []
                    self._answer(index.files[name][0], "application/octet-stream")
                elif folder == "simple" and (page := index.page(name)) is not None:
                    self._answer(page, "application/vnd.pypi.simple.v1+json")
                else:
                    self.send_error(404)

            do_HEAD = do_GET

            def _answer(self, content: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
