"""Offer tools to a command-line agent by the Model Context Protocol (MCP).

The agent starts the command of `ToolServer.command`, which passes JSON-RPC messages between its standard streams and a
socket of this process, so that tools run here: the agent's process never sees what they work on. Only this user can
reach the socket.

Source: modelcontextprotocol.io, specification 2025-06-18, "Lifecycle", "Transports: stdio", "Server features: Tools".
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from labwright.models.conversation import ToolDescription

NAME = "scientist"
"""Name of the server, which agents put before the names of its tools."""
_LATEST_PROTOCOL = "2025-06-18"
_MAX_MESSAGE_BYTES = 64 * 2**20
_METHOD_NOT_FOUND, _INVALID_REQUEST = -32601, -32600
_PIPE = """
import os, socket, sys, threading
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
def read():
    while data := os.read(0, 65536):
        link.sendall(data)
    link.shutdown(socket.SHUT_WR)
threading.Thread(target=read, daemon=True).start()
while data := link.recv(65536):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
"""
"""Program that connects the standard streams of the process that an agent starts to the socket."""


CallTool = Callable[[str, dict[str, Any]], Awaitable[tuple[str, bool]]]
"""Calls a tool by name with arguments; returns the text for the agent, and whether the call failed."""


class ToolServer:
    """An MCP server for one agent; use it as an async context manager."""

    def __init__(self, tools: Sequence[ToolDescription], call: CallTool) -> None:
        self._tools, self._call = tools, call
        self._folder = Path(tempfile.mkdtemp(prefix="scientist-mcp-", dir="/tmp"))  # a socket's path is short
        self._socket = self._folder / "socket"
        self._server: asyncio.Server | None = None
        self._tasks = set[asyncio.Task[None]]()
        self._writers = set[asyncio.StreamWriter]()

    @property
    def command(self) -> list[str]:
        """The command that an agent starts as an MCP server with standard streams."""
        return [sys.executable, "-I", "-S", "-c", _PIPE, str(self._socket)]

    async def __aenter__(self) -> ToolServer:
        self._server = await asyncio.start_unix_server(self._serve, self._socket, limit=_MAX_MESSAGE_BYTES)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in (writers := list(self._writers)):
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the messages of one connection; each is one line."""
        self._writers.add(writer)
        with suppress(ConnectionError, ValueError):  # a line that is too long ends the connection
            while line := await reader.readline():
                task = asyncio.create_task(self._reply(line, writer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        self._writers.discard(writer)
        writer.close()

    async def _reply(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if isinstance(message, dict) and "id" not in message:  # a notification
            return
        asked = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
        answer = {"jsonrpc": "2.0", "id": asked.get("id"), **await self._answer(asked)}
        with suppress(ConnectionError):
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()

    async def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        params = asked.get("params")
        given = cast("dict[str, Any]", params) if isinstance(params, dict) else dict[str, Any]()
        match asked.get("method"):
            case "initialize":
                protocol = given.get("protocolVersion", _LATEST_PROTOCOL)
                about = {"name": NAME, "version": "1"}
                return {"result": {"protocolVersion": protocol, "capabilities": {"tools": {}}, "serverInfo": about}}
            case "ping":
                return {"result": {}}
            case "tools/list":
                tools = [
                    {"name": one.name, "description": one.description, "inputSchema": dict(one.parameters)}
                    for one in self._tools
                ]
                return {"result": {"tools": tools}}
            case "tools/call" if isinstance(given.get("name"), str):
                arguments = given.get("arguments")
                words = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else dict[str, Any]()
                text, failed = await self._call(given["name"], words)
                return {"result": {"content": [{"type": "text", "text": text}], "isError": failed}}
            case str() as method:
                return {"error": {"code": _METHOD_NOT_FOUND, "message": f"{method} is not supported"}}
            case _:
                return {"error": {"code": _INVALID_REQUEST, "message": "this is no request"}}
