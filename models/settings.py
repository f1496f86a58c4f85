"""Settings of models. Every field has a default and a unit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from labwright.models.errors import ModelConfigError
from labwright.models.roles import ROLES, VISION
from labwright.models.roles.role import AnyRole
from labwright.record.schema import FrozenModel

# Parse model names into the address to open (reporting all errors in it) and the model's family.

COMMON_PROVIDERS = (
    "openai openai-chat openai-responses anthropic google ollama vllm openrouter deepseek groq mistral together "
    "fireworks azure bedrock"
).split()
PROVIDERS_WITH_BASE_URL = ("openai", "openai-chat", "openai-responses", "anthropic", "google", "ollama", "vllm")
OLLAMA_LOCAL_URL = "http://localhost:11434/v1"
VLLM_LOCAL_URL = "http://localhost:8000/v1"
_ALIASES = {"gemini": "google", "google-gla": "google", "google-vertex": "google-cloud"}
_FAMILIES = {
    word: family
    for family, words in {
        "claude": "claude anthropic",
        "gpt": "gpt openai chatgpt codex o1 o3 o4 davinci",
        "gemini": "gemini google gemma",
        "llama": "llama codellama",
        "mistral": "mistral mixtral ministral codestral devstral",
        "qwen": "qwen qwq",
        "cohere": "command",
        **{name: name for name in ("deepseek", "phi", "grok", "glm", "kimi", "offline")},
    }.items()
    for word in words.split()
}
"""Word in the name of a model -> family."""
_MODEL_STRING = re.compile(r"(?P<prefix>[a-z][a-z0-9/-]*):(?P<model>\S+)")


@dataclass(frozen=True)
class ModelAddress:
    """The location of a model."""

    prefix: str
    model: str
    base_url: str | None = None

    @property
    def has_public_prices(self) -> bool:
        """Whether the provider's public price list applies: not if the user gave the address."""
        return self.base_url is None or urlsplit(self.base_url).hostname == "api.openai.com"

    @property
    def public_url(self) -> str:
        """The address of its server without secrets; empty for the provider's own server."""
        return _strip_user(self.base_url or "")


def locate_model(name: str, base_url: str | None, environ: Mapping[str, str]) -> ModelAddress:
    """Return the address given by a model string, a base URL and the providers' own environment variables.

    `openai:` means OpenAI's Responses API; servers at other addresses use chat completions, so a custom address
    selects these. Raises: `ModelConfigError`.
    """
    match = _MODEL_STRING.fullmatch(name)
    if match is None:
        raise ModelConfigError(
            f"{name!r} is not a model name; write 'offline' or PROVIDER:MODEL with a provider such as "
            f"{', '.join(COMMON_PROVIDERS)} (for your own server: openai-chat:MODEL and models.base_url)"
        )
    prefix, model = _ALIASES.get(match["prefix"], match["prefix"]), match["model"]
    given = base_url or _read_base_url(prefix, environ)
    if given is not None and not _is_address(given):
        raise ModelConfigError(
            f"models.base_url is not the address of a server: {_strip_user(given)!r}; write e.g. "
            f"http://localhost:8000/v1"
        )
    if given is not None and prefix not in PROVIDERS_WITH_BASE_URL:
        raise ModelConfigError(
            f"models.base_url cannot be used with {prefix + ':'!r}; remove it, or write 'openai-chat:{model}' "
            f"for an OpenAI-compatible server (supported with {', '.join(PROVIDERS_WITH_BASE_URL)})"
        )
    address = ModelAddress(prefix, model, given)
    return address if prefix != "openai" or address.has_public_prices else replace(address, prefix="openai-chat")


def _strip_user(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)


def _read_base_url(prefix: str, environ: Mapping[str, str]) -> str | None:
    if prefix.startswith("openai"):
        return environ.get("OPENAI_BASE_URL") or None
    if prefix == "ollama":
        return environ.get("OLLAMA_BASE_URL") or OLLAMA_LOCAL_URL
    if prefix == "vllm":
        return environ.get("VLLM_BASE_URL") or VLLM_LOCAL_URL
    return None


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def find_family(name: str) -> str | None:
    """Return the family of a model, e.g. 'anthropic:claude-x' -> 'claude'; None if the name does not reveal it.

    Judges of one family share preferences with each other, and prefer texts written by that family.
    """
    model = name.lower().partition(":")[2] or name.lower()
    for word in re.split(r"[-/_.:]", model):
        for known in (word, word.rstrip("0123456789")):
            if known in _FAMILIES:
                return _FAMILIES[known]
    return None


def is_same_family(first: str, second: str) -> bool:
    """Return whether two model names are equal or of one family."""
    known = find_family(first)
    return first == second or (known is not None and known == find_family(second))


RETRY_WAIT_SECONDS = 2.0
"""Seconds before the first retry of a request, doubled for each further one, unless the provider asks for a delay."""
MAX_RETRY_WAIT_SECONDS = 60.0
"""Maximum seconds before a retry; a provider that asks for more has a quota, which the retry layer waits out."""
OutputMode = Literal["auto", "tool", "native", "prompted"]
REVIEWING_ROLES = frozenset(
    (
        "protocol_review missing_ablations code_reader figure_review claim_reader second_claim_reader setup_reader "
        "influence judge prefer"
    ).split()
)
"""Roles that judge what other roles made; a model of another family does not share the preferences of the author."""


def _strip_credentials(url: str | None) -> str | None:
    if url is not None and "@" in urlsplit(url).netloc:
        raise ValueError(
            "a base_url is saved with the run, so it must not contain a user or password: set the key in the "
            "provider's environment variable"
        )
    return url


BaseUrl = Annotated[str | None, AfterValidator(_strip_credentials)]
"""A server address without credentials."""


class Alternative(FrozenModel):
    """A model that substitutes for the previous one while that is unavailable."""

    name: str = Field(description="as models.name")
    base_url: BaseUrl = Field(
        default=None, description="address of its server; default: models.base_url, if the provider is the same"
    )


class Price(FrozenModel):
    """The price of a model, in USD per million tokens."""

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="input read from the provider's cache; None: same as other input",
    )


class RoleModel(FrozenModel):
    """Settings of a single role; None: the setting of all roles."""

    name: str | Literal[False] | None = Field(
        default=None,
        description="model for this role, as models.name; false (vision only): figures are checked "
        "by code, not by a model",
    )
    base_url: BaseUrl = Field(
        default=None, description="address of its server; default: models.base_url, if the provider is the same"
    )
    temperature: float | None = Field(default=None, ge=0, le=2, description="None: the role's default (docs/models.md)")
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="maximum tokens of an answer, including reasoning tokens; "
        "None: the role's default (docs/models.md)",
    )

    @field_validator("name", mode="before")
    @classmethod
    def _parse_absent_name(cls, given: Any) -> Any:
        return None if given is True else given


def _wrap_bare_name(value: Any) -> Any:
    """Convert a model given by its name alone, or by a boolean, to a mapping."""
    return {"name": value} if isinstance(value, str | bool) or value is None else value


def _check_role_name(name: str) -> str:
    if name not in ROLES:
        raise ValueError(f"there is no role {name!r}; roles are {', '.join(ROLES)}")
    return name


RoleName = Annotated[str, AfterValidator(_check_role_name)]
RoleModelValue = Annotated[RoleModel, BeforeValidator(_wrap_bare_name)]
SHORT_KEYS = {
    **{f"models.{role}.{field}": f"models.roles.{role}.{field}" for role in ROLES for field in RoleModel.model_fields},
    **{short: f"models.roles.{role}.name" for role in ROLES for short in (f"models.{role}", f"models.roles.{role}")},
}
"""Shorter setting keys, and their full keys."""


class ModelSettings(FrozenModel):
    """The models that answer, and their limits."""

    name: str = Field(
        default="offline",
        description="'offline', a pydantic-ai string such as 'anthropic:NAME', 'cli:claude', 'cli:codex', "
        "or 'replay:FILE'",
    )
    base_url: BaseUrl = Field(default=None, description="address of an OpenAI-compatible server, ending in /v1")
    roles: dict[RoleName, RoleModelValue] = Field(
        default_factory=dict[str, RoleModel], description="{ROLE: {name: ..., temperature: ...}}, or {ROLE: NAME}"
    )
    reviewer: str | Literal[False] | None = Field(
        default=None,
        description="model of the roles that judge, unless a role has its own, as NAME or NAME@ADDRESS "
        "(docs/models.md); None: a configured model of another family than `name`, if there is one; false: `name`",
    )
    fallbacks: tuple[Annotated[Alternative, BeforeValidator(_wrap_bare_name)], ...] = Field(
        default=(), description="models to try, in this order, while the role's own model is unavailable"
    )
    output: OutputMode = Field(
        default="auto",
        description="how answers follow their schema: a tool call, the provider's native JSON schema, or "
        "the prompt; auto: the first of these that the model supports",
    )
    context_tokens: int | None = Field(
        default=None, ge=1024, description="context window in tokens; None: as reported by the server, or as listed"
    )
    prices: dict[str, Price] = Field(
        default_factory=dict[str, Price],
        description="{NAME: {input: 3.0, output: 15.0, cached: 0.3}} in USD per million tokens, if the public "
        "price of a model is wrong or unknown",
    )
    timeout: float = Field(default=600.0, gt=0, description="timeout of one request to the provider, in seconds")
    retries: int = Field(default=2, ge=0, le=10, description="retries after a transport error (429, 5xx, connection)")
    output_retries: int = Field(
        default=2, ge=0, le=5, description="retries after an answer that does not fit its schema"
    )
    outage_timeout: float = Field(
        default=6 * 3600.0, ge=0, description="seconds that a run waits during a provider outage before it ends"
    )
    keep_prompts: bool = Field(
        default=True, description="save prompts in the run's folder, in prompts/ (docs/inspect-a-run.md)"
    )

    @field_validator("reviewer")
    @classmethod
    def _check_reviewer(cls, given: str | Literal[False] | None) -> str | Literal[False] | None:
        if given == "":
            raise ValueError("models.reviewer must be the name of a model, or false")
        _strip_credentials(f"http{given.partition('@http')[2]}" if given else None)
        return given

    @field_validator("roles")
    @classmethod
    def _check_required_roles(cls, given: dict[str, RoleModel]) -> dict[str, RoleModel]:
        for name, own in given.items():
            if own.name is False and name != VISION.name:
                raise ValueError(f"models.roles.{name} cannot be false: only the role vision may be left out")
        return given

    @field_validator("fallbacks")
    @classmethod
    def _check_fallbacks(cls, given: tuple[Alternative, ...]) -> tuple[Alternative, ...]:
        if any(one.name == "offline" for one in given):
            raise ValueError("the offline model cannot substitute for another: it knows only one study")
        return given

    def get_role_settings(self, role: AnyRole) -> RoleModel:
        """Return the settings of a role. Roles with images use that of `vision`, and roles that judge the reviewer,
        unless they have their own model.
        """
        own = self.roles.get(role.name, RoleModel())
        if own.name is not None:
            return own
        vision = self.roles.get(VISION.name, RoleModel())
        if role.kind == "vision" and vision.name is not None:
            return own.model_copy(update={"name": vision.name, "base_url": vision.base_url})
        reviewer = self.find_reviewer() if role.name in REVIEWING_ROLES else None
        return own if reviewer is None else own.model_copy(update=dict(reviewer))

    def get_temperature(self, role: AnyRole) -> float:
        """Return the sampling temperature of a role."""
        own = self.get_role_settings(role).temperature
        return role.temperature if own is None else own

    def get_max_tokens(self, role: AnyRole) -> int:
        """Return the maximum tokens of an answer of a role."""
        return self.get_role_settings(role).max_tokens or role.max_tokens

    def list_candidates(self, role: AnyRole) -> tuple[ModelSettings, ...]:
        """Return the settings of each model of a role: its own model, then substitutes. Empty if no model is assigned
        to the role.
        """
        own = self.get_role_settings(role)
        if own.name is False:
            return ()
        asked = [self._select_single(own.name or self.name, own.base_url)]
        if (reviewer := self.find_reviewer()) is not None and (own.name, own.base_url) == (
            reviewer.name,
            reviewer.base_url,
        ):
            asked.append(self._select_single(self.name, None))
        asked += [self._select_single(other.name, other.base_url) for other in self.fallbacks]
        return tuple({(one.name, one.base_url): one for one in asked}.values())

    def find_reviewer(self) -> Alternative | None:
        """Return the model of the roles that judge; None if it is that of the other roles. Without a setting, it is the
        first model of such a role (the judge's before others), or the first fallback, whose family is known and is not
        that of `name`."""
        if self.reviewer is not None:
            name, at, rest = (self.reviewer or "").partition("@http")
            return Alternative(name=name, base_url=f"http{rest}" if at else None) if name else None
        family = None if self.name == "offline" or self.name.startswith("replay:") else find_family(self.name)
        own = (self.roles[role] for role in ("judge", *ROLES) if role in REVIEWING_ROLES & self.roles.keys())
        named = (Alternative(name=one.name, base_url=one.base_url) for one in own if one.name)
        others = (one for one in (*named, *self.fallbacks) if find_family(one.name) not in (None, family))
        return next(others, None) if family is not None else None

    def select_model(self, model_name: str) -> ModelSettings:
        """Return these settings with one model for every role, given as NAME or NAME@ADDRESS, without substitutes."""
        name, at, rest = model_name.partition("@http")
        return self._select_single(name, f"http{rest}" if at else self.base_url if self.name == "offline" else None)

    def _select_single(self, name: str, base_url: str | None) -> ModelSettings:
        """Return these settings for one model. The common address applies to models of the same provider."""
        shared = self.base_url if name.partition(":")[0] == self.name.partition(":")[0] else None
        return self.model_copy(
            update={"name": name, "base_url": base_url or shared, "fallbacks": (), "roles": {}, "reviewer": False}
        )

    @property
    def distinct_models(self) -> tuple[ModelSettings, ...]:
        """Settings of every model that may be asked, one element per model."""
        models = (one for role in ROLES.values() for one in self.list_candidates(role))
        return tuple({(one.name, one.base_url): one for one in models}.values())

    @property
    def model_names(self) -> str:
        """Description of all models: `anthropic:a (vision, judge: openai:b; fallback: ollama:c)`."""
        roles: dict[str, list[str]] = {}
        for role in ROLES.values():
            for one in self.list_candidates(role)[:1]:
                roles.setdefault(one.name, []).append(role.name)
        common = roles.pop(self.name, None)
        others = [f"{', '.join(played)}: {name}" for name, played in roles.items()]
        others += [f"fallback: {', '.join(one.name for one in self.fallbacks)}"] if self.fallbacks else []
        if common is None:
            return "; ".join(others)
        return f"{self.name} ({'; '.join(others)})" if others else self.name

    @property
    def answer_limit_seconds(self) -> float:
        """Seconds after which an answer fails, including all retries by all substitute models."""
        requests = self.retries + self.output_retries + 1
        return (1 + len(self.fallbacks)) * (requests * self.timeout + self.retries * MAX_RETRY_WAIT_SECONDS)


class SubjectSettings(FrozenModel):
    """A language model that experiments may query, under a name chosen by the user."""

    model: str = Field(description="as models.name: 'openai-chat:NAME', 'anthropic:NAME', 'ollama:NAME'")
    base_url: BaseUrl = Field(default=None, description="address of an OpenAI-compatible server, ending in /v1")
    description: str = Field(default="", description="description for the planner")
    context_tokens: int | None = Field(default=None, ge=256, description="context window in tokens")
    price: Price | None = Field(
        default=None,
        description="{input: 3.0, output: 15.0} in USD per million tokens, if the public price is wrong or unknown",
    )
    concurrency: int = Field(default=8, ge=1, le=256, description="concurrent calls over all cells")
    requests_a_minute: float | None = Field(
        default=None, gt=0, description="requests per minute over all cells; None: no limit"
    )
    max_tokens: int = Field(default=1024, ge=1, description="maximum tokens of an answer; code may request fewer")
    timeout: float = Field(default=120.0, gt=0, description="timeout of one request, in seconds")
    outage_timeout: float = Field(
        default=1800.0,
        ge=0,
        description="seconds to wait while a subject is unavailable; then the run ends and can be resumed",
    )

    @property
    def model_settings(self) -> ModelSettings:
        """Its settings as model settings, for prices and addresses."""
        return ModelSettings(
            name=self.model, base_url=self.base_url, prices={} if self.price is None else {self.model: self.price}
        )

    @property
    def definition(self) -> str:
        """Its identity, which is part of the key of every cell that may query it."""
        return f"{self.model} {self.base_url or ''}".strip()
