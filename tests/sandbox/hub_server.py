"""A local Hugging Face hub with the endpoints needed to download models and datasets. Files larger than `LFS` are
redirected with the headers of large files, as on the real hub."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LFS = 4096


@dataclass
class Hub:
    """`files` maps "models/OWNER/NAME" or "datasets/OWNER/NAME" to its files by path."""

    files: Mapping[str, Mapping[str, bytes]]
    licence: str = "mit"
    requests: list[str] = field(default_factory=list[str])
    address: str = ""


@contextmanager
def running_hub(hub: Hub) -> Generator[Hub]:
    """Serve the hub at `hub.address`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = unquote(urlsplit(self.path).path).strip("/").split("/")
            hub.requests.append(f"POST {self.path}")
            if path[:1] == ["api"] and "paths-info" in path:
                files = hub.files.get("/".join(path[1:4]), {})
                try:
                    wanted = json.loads(asked).get("paths", [])
                except ValueError:
                    from urllib.parse import parse_qs

                    wanted = parse_qs(asked.decode()).get("paths", [])
                return self._json([_make_entry(name, files[name]) for name in wanted if name in files])
            self._send(404)

        def _answer(self, *, body: bool) -> None:
            hub.requests.append(f"{self.command} {self.path}")
            path = unquote(urlsplit(self.path).path).strip("/").split("/")
            if path[:1] == ["api"] and "/".join(path[1:4]) in hub.files:
                files = hub.files["/".join(path[1:4])]
                if path[4:5] == ["tree"]:
                    under = "/".join(path[6:])
                    return self._json(
                        [
                            _make_entry(name, content)
                            for name, content in sorted(files.items())
                            if name.startswith(f"{under}/" if under else "")
                        ]
                    )
                if path[4:5] in ([], ["revision"]):
                    return self._json(
                        {
                            "id": "/".join(path[2:4]),
                            "sha": COMMIT,
                            "private": False,
                            "gated": False,
                            "disabled": False,
                            "tags": [f"license:{hub.licence}"],
                            "cardData": {"license": hub.licence},
                            "downloads": 1,
                            "likes": 0,
                            "siblings": [
                                {"rfilename": name, "size": len(content)} for name, content in sorted(files.items())
                            ],
                        }
                    )
            if path[:1] == ["large"]:
                return self._send(200, hub.files["/".join(path[1:4])]["/".join(path[4:])], body=body)
            kind = path[:1] if path[:1] == ["datasets"] else ["models"]
            rest = path[1:] if path[:1] == ["datasets"] else path
            repository = "/".join((*kind, *rest[:2]))
            if rest[2:3] == ["resolve"] and repository in hub.files:
                name = "/".join(rest[4:])
                content = hub.files[repository].get(name)
                headers = {"X-Repo-Commit": COMMIT}
                if content is None:
                    return self._send(404, headers=headers | {"X-Error-Code": "EntryNotFound"})
                storage = hub.address.replace("127.0.0.1", "localhost")  # another host, like the hub's storage
                etag = f'"{hashlib.sha256(content).hexdigest()}"'
                if len(content) > LFS:
                    return self._send(
                        302,
                        headers=headers
                        | {
                            "X-Linked-Etag": etag,
                            "X-Linked-Size": str(len(content)),
                            "Location": f"{storage}/large/{repository}/{name}",
                        },
                    )
                return self._send(200, content, headers=headers | {"ETag": etag}, body=body)
            self._send(404, headers={"X-Error-Code": "RepoNotFound"})

        def _json(self, value: object) -> None:
            self._send(
                200,
                json.dumps(value).encode(),
                headers={"Content-Type": "application/json"},
                body=self.command != "HEAD",
            )

        def _send(
            self, code: int, content: bytes = b"", *, headers: Mapping[str, str] | None = None, body: bool = True
        ) -> None:
            start, end = 0, len(content)
            if code == 200 and (asked := self.headers.get("Range", "")).startswith("bytes="):
                first, _, last = asked.removeprefix("bytes=").partition("-")
                start, end, code = int(first), min(len(content), int(last or len(content)) + 1), 206
            self.send_response(code)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(end - start))
            self.end_headers()
            if body:
                self.wfile.write(content[start:end])

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _make_entry(name: str, content: bytes) -> dict[str, object]:
    large = {"lfs": {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}}
    return {
        "type": "file",
        "path": name,
        "size": len(content),
        "oid": hashlib.sha1(content).hexdigest(),
        **(large if len(content) > LFS else {}),
    }
