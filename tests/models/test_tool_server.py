"""The MCP server: what it answers through the command that an agent starts, and to messages that are none."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

from labwright.models.agent_programs import ToolServer
from tests.models.test_author import Spec


async def call(name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    if name == "slow":
        await asyncio.sleep(0.3)
    return f"{name} {arguments}", name == "wrong"


async def exchange(*lines: str) -> list[dict[str, Any]]:
    """Return what the server answers to lines, in the order of its answers."""
    async with ToolServer((Spec("list"), Spec("slow")), call) as server:
        process = await asyncio.create_subprocess_exec(
            *server.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        answers = [json.loads(await process.stdout.readline()) for line in lines if '"notifications/' not in line]
        process.stdin.close()
        await process.wait()
    return answers


def ask(number: int, method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


async def test_an_agent_finds_and_calls_the_tools() -> None:
    answers = await exchange(
        ask(0, "initialize", protocolVersion="2024-11-05"),
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        ask(1, "tools/list"),
        ask(2, "tools/call", name="list", arguments={"path": "é\n"}),
        ask(3, "tools/call", name="wrong"),
        ask(4, "ping"),
    )
    by_id = {one["id"]: one["result"] for one in answers}
    assert by_id[0]["protocolVersion"] == "2024-11-05" and by_id[0]["capabilities"] == {"tools": {}}
    assert [one["name"] for one in by_id[1]["tools"]] == ["list", "slow"]
    assert by_id[1]["tools"][0]["inputSchema"] == {"type": "object", "properties": {}}
    assert by_id[2] == {"content": [{"type": "text", "text": "list {'path': 'é\\n'}"}], "isError": False}
    assert by_id[3]["isError"] and by_id[4] == {}


async def test_what_is_no_request_gets_an_error_and_a_slow_call_stops_no_other() -> None:
    answers = await exchange(
        ask(1, "tools/call", name="slow"),
        "no JSON",
        "[1, 2]",
        ask(2, "resources/list"),
        '{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": [1]}',
        '{"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "list", "arguments": "x"}}',
    )
    assert [one["id"] for one in answers][-1] == 1  # the slow one
    errors = [one["error"]["code"] for one in answers if "error" in one]
    assert sorted(errors) == [-32601, -32601, -32600, -32600]
    assert next(one for one in answers if one["id"] == 4)["result"]["content"][0]["text"] == "list {}"


async def test_only_this_user_reaches_the_socket_and_nothing_is_left() -> None:
    async with ToolServer((), call) as server:
        folder = Path(server.command[-1]).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not folder.exists()
