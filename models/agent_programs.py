"""Command-line coding agents that answer without a terminal: their command lines, and what they print.

Both programs run with their own tools switched off, in an empty folder, without the user's instructions, hooks and MCP
servers: an agent with credentials, network and a shell must not read what a stranger's repository says. What they print
shows whether that worked (`AgentOutput.own_tool`).

Sources: `claude --help` of 2.1.332 (print mode, stream-json), `codex exec --help` and `codex features list` of 0.171.0.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from labwright.models.backend import Image
from labwright.record.schema.decisions import TokenUsage

MAX_ARGUMENT_BYTES = 100_000
"""Length of an argument that any Linux accepts (MAX_ARG_STRLEN is 128 KiB)."""


@dataclass(frozen=True)
class Question:
    """What one process of an agent is asked. `folder` is empty and belongs to it."""

    folder: Path
    system: str
    user: str
    model: str = ""
    """Empty: the program's own default."""
    images: tuple[Image, ...] = ()
    schema: Mapping[str, Any] | None = None
    """JSON schema that the program must enforce."""


@dataclass(frozen=True)
class CommandLine:
    """How to start a process."""

    argv: list[str]
    stdin: bytes
    env: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass
class AgentOutput:
    """What a process has printed so far."""

    text: str = ""
    output: object = None
    """The answer as the program parsed it."""
    is_complete: bool = False
    error: str = ""
    error_kind: str = ""
    """The program's own word for the error, or an HTTP status."""
    resets_at: float | None = None
    """Time (seconds since 1970) at which a used-up quota is renewed."""
    model: str = ""
    usage: TokenUsage = field(default_factory=TokenUsage)
    usd: float | None = None
    """The cost; None: not reported, or not yet."""
    own_tool: str = ""
    """A tool of the program itself that it has, or used, although it must not."""
    usage_by_message: dict[str, TokenUsage] = field(default_factory=dict[str, TokenUsage])


def _get(value: object, *keys: str) -> Any:
    """Return a nested value; None if a part is missing or no mapping."""
    for key in keys:
        value = cast("Mapping[str, object]", value).get(key) if isinstance(value, Mapping) else None
    return value


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


class ClaudeCode:
    """Claude Code in print mode (`claude -p`)."""

    program = "claude"
    install_hint = "install it (npm install -g @anthropic-ai/claude-code) and log in by starting claude once"
    login_hint = "log in by starting claude once (/login), or make a token with claude setup-token"
    update_hint = "update it with claude update"

    def prepare(self) -> str:
        """Return why the installed version cannot switch off its tools; empty if it can. Blocks for a second."""
        return ""  # its first event lists the tools, before it sends anything

    def enforces(self, schema: Mapping[str, Any]) -> bool:
        """Return whether the program can enforce a schema."""
        return schema.get("type") == "object" and len(json.dumps(schema)) < MAX_ARGUMENT_BYTES

    def build_command(self, question: Question, retries: int) -> CommandLine:
        (question.folder / "system.txt").write_text(question.system, encoding="utf-8")
        words = "-p --input-format stream-json --output-format stream-json --verbose --no-session-persistence"
        argv = [self.program, *words.split(), "--disable-slash-commands", "--tools", "", "--setting-sources", ""]
        argv += ["--strict-mcp-config", "--permission-mode", "dontAsk"]
        argv += ["--name", "scientist"]  # without a name, it pays for a request that names the session
        argv += ["--system-prompt-file", str(question.folder / "system.txt")]
        if question.schema is not None:
            argv += ["--json-schema", json.dumps(question.schema)]
        argv += ["--model", question.model] if question.model else []
        content: list[dict[str, Any]] = [{"type": "text", "text": question.user}]
        for image in question.images:
            source = {"type": "base64", "media_type": image.media_type, "data": base64.b64encode(image.data).decode()}
            content.append({"type": "image", "source": source})
        message = {"type": "user", "message": {"role": "user", "content": content}}
        env = {"CLAUDE_CODE_MAX_RETRIES": str(retries), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        return CommandLine(argv, json.dumps(message).encode() + b"\n", env)

    def read_event(self, event: Mapping[str, Any], seen: AgentOutput) -> None:
        """Take in one line of output. Unknown events are ignored."""
        match event.get("type"):
            case "system" if event.get("subtype") == "init":
                seen.model = str(event.get("model") or "")
                tools = cast("Sequence[object]", event.get("tools") or ())
                seen.own_tool = next((str(one) for one in tools if one != "StructuredOutput"), "")
            case "assistant":
                message = event.get("message")
                if event.get("error"):
                    seen.error_kind = str(event["error"])
                elif used := _get(message, "usage"):
                    seen.usage_by_message[str(_get(message, "id"))] = _read_claude_usage(used)
                    seen.usage = sum(seen.usage_by_message.values(), start=TokenUsage(usd=0.0, cached_usd=0.0))
            case "rate_limit_event":
                at = _get(event, "rate_limit_info", "resetsAt")
                if _get(event, "rate_limit_info", "status") == "rejected" and isinstance(at, int | float):
                    seen.resets_at = float(at)
            case "result":
                seen.text, seen.output = str(event.get("result") or ""), event.get("structured_output")
                cost = event.get("total_cost_usd")
                seen.usd = float(cost) if isinstance(cost, int | float) else None
                if used := event.get("usage"):
                    seen.usage = _read_claude_usage(used)
                if event.get("is_error") or event.get("subtype") != "success":
                    errors = cast("Sequence[object]", event.get("errors") or ())
                    seen.error = seen.text or "; ".join(map(str, errors)) or str(event.get("subtype"))
                    seen.error_kind = str(event.get("api_error_status") or seen.error_kind or event.get("subtype"))
                else:
                    seen.is_complete = True
            case _:
                pass


def _read_claude_usage(used: object) -> TokenUsage:
    read, written = _count(_get(used, "cache_read_input_tokens")), _count(_get(used, "cache_creation_input_tokens"))
    return TokenUsage(
        input_tokens=_count(_get(used, "input_tokens")) + read + written,
        output_tokens=_count(_get(used, "output_tokens")),
        cached_tokens=read,
        cache_write_tokens=written,
        usd=0.0,
        cached_usd=0.0,
    )


_CODEX_TOOL_FEATURES = (
    "shell_tool unified_exec view_image multi_agent multi_agent_v2 goals skill_search image_generation tool_suggest "
    "apps plugins hooks browser_use browser_use_external computer_use in_app_browser sleep_tool remote_plugin "
    "shell_snapshot skill_mcp_dependency_install workspace_dependencies unbounded_connection_retries"
).split()
"""Features that give the model a tool, load what the user installed, or wait for a network without end."""
_CATALOGUE_SECONDS = 30.0
_CODEX_OWN_ITEMS = "command_execution file_change web_search collab_tool_call image_generation mcp_tool_call".split()

_CODEX_MODEL_TOOLS: dict[str, object] = {
    "shell_type": "disabled",
    "apply_patch_tool_type": None,
    "tool_mode": "direct",
    "multi_agent_version": None,
    "experimental_supported_tools": [],
    "supports_search_tool": False,
    "node_repl_disabled": True,
}
"""Fields of a model in the program's catalogue that give it tools besides the features."""


class Codex:
    """Codex in its mode without a terminal (`codex exec`).

    Most of its models have tools by its catalogue, whatever the features say, so it is given a catalogue without them.
    """

    program = "codex"
    install_hint = "install it (npm install -g @openai/codex) and log in with codex login"
    login_hint = "log in with codex login"
    update_hint = "update it with codex update, or npm install -g @openai/codex"

    def __init__(self) -> None:
        self._catalogue = ""

    def prepare(self) -> str:
        try:
            command = [self.program, "debug", "models", "--bundled"]
            printed = subprocess.run(command, capture_output=True, timeout=_CATALOGUE_SECONDS, check=True).stdout
            catalogue = json.loads(printed)
            for model in catalogue["models"]:
                model |= _CODEX_MODEL_TOOLS
        except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError) as error:
            return f"codex debug models does not list its models ({type(error).__name__})"
        self._catalogue = json.dumps(catalogue)
        return ""

    def enforces(self, schema: Mapping[str, Any]) -> bool:
        return False  # its service accepts only schemas without any optional field

    def build_command(self, question: Question, retries: int) -> CommandLine:
        words = "exec --json --ephemeral --skip-git-repo-check --ignore-user-config --ignore-rules --color never"
        settings: dict[str, object] = {
            **{f"features.{name}": False for name in _CODEX_TOOL_FEATURES},
            "web_search": "disabled",
            "approval_policy": "never",
            "project_doc_max_bytes": 0,
            "skills.include_instructions": False,
            "skills.bundled.enabled": False,
            "include_environment_context": False,
        }
        system = json.dumps(question.system)
        if self._catalogue:
            (question.folder / "models.json").write_text(self._catalogue, encoding="utf-8")
            settings["model_catalog_json"] = str(question.folder / "models.json")
        in_setting = len(system.encode()) < MAX_ARGUMENT_BYTES
        if in_setting:
            settings["instructions"] = question.system
        argv = [self.program, *words.split(), "-s", "read-only"]
        for key, value in settings.items():
            argv += ["-c", f"{key}={json.dumps(value)}"]
        for number, image in enumerate(question.images):
            path = question.folder / f"image{number}.{image.media_type.rpartition('/')[2]}"
            path.write_bytes(image.data)
            argv += [f"--image={path}"]  # as two words, it would take the words that follow as well
        argv += ["-m", question.model] if question.model else []
        user = question.user if in_setting else f"{question.system}\n\n{question.user}"
        return CommandLine([*argv, "-"], user.encode())

    def read_event(self, event: Mapping[str, Any], seen: AgentOutput) -> None:
        match event.get("type"):
            case "item.started" | "item.completed":
                item = event.get("item")
                kind = str(_get(item, "type"))
                if kind == "agent_message":
                    seen.text = str(_get(item, "text") or "")
                elif kind in _CODEX_OWN_ITEMS:
                    seen.own_tool = kind
            case "turn.completed":
                used = event.get("usage")
                seen.is_complete, seen.error = True, ""
                seen.usage = TokenUsage(
                    input_tokens=_count(_get(used, "input_tokens")),
                    output_tokens=_count(_get(used, "output_tokens")),
                    cached_tokens=_count(_get(used, "cached_input_tokens")),
                    cache_write_tokens=_count(_get(used, "cache_write_input_tokens")),
                    usd=0.0,
                    cached_usd=0.0,
                )
            case "error":
                seen.error = str(event.get("message") or "")
            case "turn.failed":
                seen.error = str(_get(event, "error", "message") or "the turn failed")
            case _:
                pass


AgentProgram = ClaudeCode | Codex
PROGRAMS: dict[str, type[AgentProgram]] = {"claude": ClaudeCode, "codex": Codex}


# --- when a used-up quota is renewed ----------------------------------------------------------------------------------

_EPOCH = re.compile(r"\|\s*(\d{10})\b")
_AFTER = re.compile(r"in ((?:\d+ (?:day|hour|minute|second)s?(?:,? (?:and )?)?)+)", re.IGNORECASE)
_AMOUNT = re.compile(r"(\d+) (day|hour|minute|second)", re.IGNORECASE)


def parse_reset_time(text: str, now: float) -> float | None:
    """Return the time (seconds since 1970) at which a message says that a quota is renewed; None if it does not, or
    only as a time of the day."""
    if match := _EPOCH.search(text):
        return float(match[1])
    if match := _AFTER.search(text):
        amounts = {f"{unit.lower()}s": int(number) for number, unit in _AMOUNT.findall(match[1])}
        return now + timedelta(**amounts).total_seconds()
    return None
