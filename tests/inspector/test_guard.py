"""Whom the page refuses, and which paths lead nowhere."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from labwright.inspector.run_files import list_files
from tests.inspector.web_server import PNG, get_raw


def test_the_token_is_needed_once_then_the_cookie(web: httpx.Client) -> None:
    token = web.headers["x-test-token"]
    with httpx.Client(base_url=web.base_url, trust_env=False) as bare:
        for address in ("/", "/runs/whole", "/live", "/static/x/inspector.js", "/?token=", "/?token=wrong"):
            assert bare.get(address).status_code == 403, address
        answer = bare.get("/runs/whole", params={"token": token, "a": "b"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/runs/whole?a=b")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie
        assert bare.get("/runs/whole").status_code == 200
        bare.cookies.clear()
        assert bare.get("/", headers={"cookie": "a=;b;scientist-=x"}).status_code == 403
        assert get_raw(web, f"//evil.example/?token={token}")[1]["location"] == "/evil.example/"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
    ],
)
def test_other_pages_and_other_names_are_refused(web: httpx.Client, headers: dict[str, str], status: int) -> None:
    assert web.get("/", headers=headers).status_code == status


def test_every_answer_forbids_what_is_not_ours(web: httpx.Client) -> None:
    for address in ("/", "/runs/whole", "/nothing", "/runs/hostile/files/nodes/n0001/source/experiment.py"):
        headers = web.get(address).headers
        assert headers["content-security-policy"].startswith("default-src 'none'"), address
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "same-origin"
        assert headers["x-frame-options"] == "DENY" and "server" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "nodes/../../secret.txt",
        "%2e%2e/secret.txt",
        "nodes/..%2f..%2fsecret.txt",
        "/etc/passwd",
        "nodes/n0001/link.txt",
        "nodes/n0001/away/secret.txt",
        "nodes/n0001/pipe",
        "nodes/n0001",
        "nodes//n0001",
        "data/labels/y.txt",
        "events.jsonl",
        "control/x.json",
        "nodes/n0001/%00",
        "nodes/n0001/source/.hidden",
        "",
    ],
)
def test_no_path_leads_out_of_what_is_shown(web: httpx.Client, path: str) -> None:
    status, _, body = get_raw(web, f"/runs/hostile/files/{path}")
    assert status == 404 and b"secret" not in body


def test_files_cannot_act_as_pages(web: httpx.Client) -> None:
    base = "/runs/hostile/files/nodes/n0001"
    page = web.get(f"{base}/plots1/figures/page.html")
    assert page.headers["content-type"] == "application/octet-stream"
    assert page.headers["content-disposition"].startswith("attachment")
    assert web.get(f"{base}/source/experiment.py").headers["content-type"].startswith("text/plain")
    picture = web.get(f"{base}/plots1/figures/%3Cb%3Ex.png")
    assert (picture.headers["content-type"], picture.content) == ("image/png", PNG)
    assert "link.txt" not in web.get("/runs/hostile/nodes/n0001").text


def test_a_listing_leaves_out_what_cannot_be_read_and_goes_on(tmp_path: Path) -> None:
    place = tmp_path / "nodes" / "n0001"
    for name in (".hidden/a", "b/c", "shut/d", "z", "/".join(["deep"] * 150) + "/e"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("")
    (place / "link").symlink_to(tmp_path)
    (place / "shut").chmod(0)
    found = [one.path for one in list_files(tmp_path, "nodes/n0001")]
    (place / "shut").chmod(0o700)
    assert found[:2] == ["nodes/n0001/z", "nodes/n0001/b/c"] and found[2].endswith("deep/e")
    (tmp_path / "nodes" / "n0002").symlink_to(place)
    assert list_files(tmp_path, "nodes/n0002") == list_files(tmp_path, "nodes/n0003") == ()
