"""Template rendering. All printed text is untrusted: it is escaped, and control characters are removed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast
from urllib.parse import parse_qsl

from fastapi import HTTPException
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import ValidationError
from starlette.responses import HTMLResponse

from labwright.inspector.render import format_cells, format_remaining_estimate
from labwright.inspector.safe_text import (
    format_cached,
    format_count,
    format_dollars,
    format_duration,
    format_size,
    shorten,
    to_plain,
    to_printable,
)
from labwright.inspector.status import find_condition
from labwright.inspector.summary import overall_score
from labwright.inspector.tree import format_branch_point, format_remaining
from labwright.inspector.web.charts import KIND_SHAPES, STATUS_MARKS
from labwright.inspector.web.run_cache import CachedRun
from labwright.record.claims.sentences import describe_need, describe_outcome, format_lost_seeds
from labwright.record.control_files import find_refusal, read_user_name, send_command
from labwright.record.events.run_events import CommandReceived
from labwright.record.schema.nodes import KIND_NAMES, STAGES

WEB_FOLDER = Path(__file__).parent
TABS: Final = tuple("overview reports chart tree table cells paper checks cost calls events".split())
"""The views of a run; the overview is at the run's own address."""
STUDY_TABS: Final = ("chart", "paper")
"""Views that ablations and questions do not have."""
T = TypeVar("T")


def _sanitize(value: Any) -> Any:
    """Sanitize a value printed by a template; markup created by the template is kept."""
    if value is None:
        return ""
    return to_printable(value) if type(value) is str else value


def _format_number(value: float | None, digits: int = 4) -> str:
    return "–" if value is None else f"{value:.{digits}g}"


def _format_fixed(value: float | None, digits: int, sign: bool = False) -> str:
    """Format with a fixed number of decimals; no sign if the result prints as zero."""
    if value is None:
        return "–"
    text = f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"
    return text if float(text) else text.lstrip("+-")


def _format_time(at: str | float | None) -> str:
    if not at:
        return "–"
    then = datetime.fromisoformat(at).astimezone() if isinstance(at, str) else datetime.fromtimestamp(at)
    return then.strftime("%d %b %H:%M:%S")


def require_found(value: T | None, why: str) -> T:
    """Return the value. Raises `HTTPException` (404) if it is None."""
    if value is None:
        raise HTTPException(404, why)
    return value


@cache
def _open_environment() -> Environment:
    """Return the templates, which are compiled once for all renderers: this takes a third of a second."""
    environment = Environment(
        loader=FileSystemLoader(WEB_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_sanitize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    cast("dict[str, Any]", environment.filters).update(
        plain=to_plain,
        short=shorten,
        duration=format_duration,
        tokens=format_count,
        size=format_size,
        when=_format_time,
        origin=format_branch_point,
        number=_format_number,
        fixed=_format_fixed,
        left=format_remaining,
        cells=format_cells,
        score=overall_score,
        forecast=format_remaining_estimate,
    )
    cast("dict[str, Any]", environment.globals).update(
        dollars=format_dollars,
        cached=format_cached,
        shape_of=KIND_SHAPES,
        marks=STATUS_MARKS,
        stage_names=STAGES,
        kinds=KIND_NAMES,
        lost=format_lost_seeds,
        outcome=describe_outcome,
        need=describe_need,
    )
    return environment


class PageRenderer:
    """Renders templates and single macros."""

    def __init__(self, addresses: Mapping[str, str], *, form_token: str = "", single: bool = False) -> None:
        """`addresses` are the addresses of the script and the style sheet; without a `form_token`, pages have no
        actions. `single`: the server shows only one run.
        """
        self._shared: dict[str, Any] = {**addresses, "form_token": form_token, "single": single}

    def render_response(self, name: str, **values: Any) -> HTMLResponse:
        return HTMLResponse(self.render_page(name, **values))

    def render_view(
        self, name: str, run: CachedRun, *, part: bool = False, heading: str = "", live: str = "", **values: Any
    ) -> HTMLResponse:
        """Render a view of a run under the tabs of the run, or only the view itself. `heading` is the title of its
        window, `live` the name of the live view whose updates it receives."""
        if part:
            return self.render_response(name, run=run.name, **values)
        kind = run.state.kind
        tabs = [one for one in TABS if kind == "paper" or one not in STUDY_TABS]
        about = {"version": run.version, "condition": find_condition(run.state, run.process)}
        heading = heading or name.capitalize()
        return self.render_response(
            "run_page", view=name, run=run.name, tabs=tabs, heading=heading, live=live, **(about | values)
        )

    def render_page(self, name: str, **values: Any) -> str:
        return _open_environment().get_template(f"{name}.html.jinja").render(self._shared | values)

    @cached_property
    def _pieces(self) -> Any:
        return _open_environment().get_template("pieces.html.jinja").make_module(self._shared)

    def render_piece(self, piece: str, *values: Any) -> str:
        """Render a macro of the pieces of live views."""
        return str(getattr(self._pieces, piece)(*values)).strip()


# Actions from the page: the commands that are currently possible, and parsing of their forms.
#
# Commands are written with `record.control_files.send_command`, as on the command line; the process of the run
# acknowledges and records them with their reason. `record.control_files.find_refusal` decides what is refused.

MAX_FORM_BYTES = 16 * 2**10
"""Maximum bytes of a form."""
REASON_PLACEHOLDER = "…"
"""Placeholder for a reason while checking which verbs are possible."""
NODE_VERBS: Final = ("kill", "mark")
"""Verbs that concern a node."""


class FormResult(NamedTuple):
    """Result of a form; `accepted` means that the command was written."""

    accepted: bool
    text: str


class AvailableActions(NamedTuple):
    """Verbs that are currently possible for a run or node; if none is possible, `why` gives the reason."""

    verbs: tuple[str, ...]
    why: str


def list_actions(run: CachedRun, node: str = "") -> AvailableActions:
    """List the possible actions for a run or for a node."""
    notes = ("note",) if run.state.kind == "paper" else ()
    pause = "approve" if run.state.open_gate is not None else "resume" if run.state.is_paused else "pause"
    verbs = NODE_VERBS if node else (pause, *notes, "stop")
    commands = [CommandReceived(verb=verb, target=node, text=REASON_PLACEHOLDER) for verb in verbs]
    whys = {one.verb: find_refusal(run.state, one, is_running=run.process is not None) for one in commands}
    able = tuple(verb for verb, why in whys.items() if why is None)
    return AvailableActions(able, "" if able else next(filter(None, whys.values())))


# --- forms ----------------------------------------------------------------------------------------------------------


def parse_command(fields: Mapping[str, str]) -> CommandReceived:
    """Parse the command of a form. Raises `HTTPException`."""
    given: dict[str, Any] = {
        "verb": fields.get("verb", ""),
        "target": fields.get("target", "").strip(),
        "text": to_printable(fields.get("text", "")).strip(),
        "by": read_user_name(),
    }
    try:
        return CommandReceived.model_validate(given | ({"mark": fields["mark"]} if "mark" in fields else {}))
    except ValidationError:
        raise HTTPException(400, "this is not a valid command") from None


def parse_fields(body: bytes) -> dict[str, str]:
    """Parse the fields of a form. Raises `HTTPException`."""
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=16, errors="strict"))
    except ValueError:
        raise HTTPException(400, "the request is not a valid form") from None


def send_request(run: CachedRun, command: CommandReceived) -> FormResult:
    """Send a command, or return the reason why it is refused."""
    if not command.text:
        empty = "the note is empty: enter the text for the next prompts"
        return FormResult(False, empty if command.verb == "note" else "give a reason; it is kept in the record")
    run.refresh()
    with run.lock:
        why = find_refusal(run.state, command, is_running=run.process is not None)
    if why is not None:
        return FormResult(False, why)
    try:
        send_command(run.folder, command)
    except OSError as error:
        return FormResult(False, f"the command could not be written: {error.strerror or error}")
    what = f"{command.verb} {command.target}".strip()
    when = "it takes effect within a second" if run.process else "it takes effect when the run is resumed"
    return FormResult(True, f"Sent: {shorten(what, 60)}; {when}.")
