"""Settings of the model side. Every field has a default and a unit."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from models.roles import Role
from models.tracing import Collector
from record.nouns.frozen import Frozen

ROLES: tuple[Role, ...] = get_args(Role)
Output = Literal["auto", "tool", "native", "prompted"]

_TEMPERATURES: dict[Role, float] = {
    "plan": 0.5, "code": 0.5, "plot": 0.5, "vision": 0.5, "feedback": 0.5, "compare": 0.0, "summary": 1.0,
    "figures": 0.5, "outline": 0.7, "write": 1.0, "reflect": 0.5, "judge": 0.0, "figure_review": 0.5,
    "ablation_plan": 0.5, "missing_ablations": 0.5,
    "cite_ask": 0.5, "cite_select": 0.0,
    "idea": 1.0, "idea_reflect": 0.7, "related_work": 0.5, "proposal": 0.7, "idea_of": 0.0, "digest": 0.3,
    "prefer": 0.0,
    "judge_notes": 0.0,
}
_MAX_TOKENS: dict[Role, int] = {
    "plan": 8192, "code": 8192, "plot": 8192, "vision": 8192, "feedback": 8192, "compare": 8192, "summary": 8192,
    "figures": 8192, "outline": 8192, "write": 16384, "reflect": 16384, "judge": 8192, "figure_review": 8192,
    "ablation_plan": 8192, "missing_ablations": 8192,
    "cite_ask": 8192, "cite_select": 8192,
    "idea": 8192, "idea_reflect": 8192, "related_work": 8192, "proposal": 8192, "idea_of": 8192, "digest": 8192,
    "prefer": 8192,
    "judge_notes": 4096,
}


def _without_credentials(url: str | None) -> str | None:
    if url is not None and "@" in urlsplit(url).netloc:
        raise ValueError("a base_url is saved with the run, so it holds no user or password: give the key in the "
                         "provider's variable of the environment")
    return url


BaseUrl = Annotated[str | None, AfterValidator(_without_credentials)]
"""The address of a server, without credentials."""


class Alternative(Frozen):
    """A model that stands in when the one before it is unavailable."""

    name: str = Field(description="as models.name")
    base_url: BaseUrl = Field(default=None, description="its address; models.base_url if of the same provider")


class Price(Frozen):
    """What a model costs, in USD per million tokens."""

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False,
                                 description="input out of the provider's cache; None: as other input")


class RoleModel(Frozen):
    """What one role has of its own; None is what all have."""

    name: str | Literal[False] | None = Field(
        default=None, description="a model for this role alone, as models.name; false, for vision: nobody looks at "
                                  "figures, a program checks them")
    base_url: BaseUrl = Field(default=None, description="its address; models.base_url if of the same provider")
    temperature: float | None = Field(default=None, ge=0, le=2, description="instead of models.temperatures.ROLE")
    max_tokens: int | None = Field(default=None, ge=1, description="instead of models.max_tokens.ROLE")

    @field_validator("name", mode="before")
    @classmethod
    def _nothing_of_its_own(cls, given: Any) -> Any:
        return None if given is True else given


def _named(value: Any) -> Any:
    """A mapping of a model that was given by its name alone, or by a truth value."""
    return {"name": value} if isinstance(value, str | bool) or value is None else value


OfRole = Annotated[RoleModel, BeforeValidator(_named)]


class ModelSettings(Frozen):
    """Which models answer, and within which bounds. `of` tells what holds for one role.

    Source: AI-Scientist-v2, Table 2 (code generation and feedback: 8192 tokens at 0.5; summary: 8192 at 1.0). The
    values of the other roles are ours.
    """

    name: str = Field(default="offline", description="'offline', a pydantic-ai string such as 'anthropic:NAME', or "
                                                    "'replay:FILE'")
    base_url: BaseUrl = Field(default=None, description="address of an OpenAI-compatible server, ending in /v1")
    plan: OfRole = RoleModel()
    code: OfRole = RoleModel()
    plot: OfRole = RoleModel()
    vision: OfRole = RoleModel()
    feedback: OfRole = RoleModel()
    compare: OfRole = RoleModel()
    summary: OfRole = RoleModel()
    figures: OfRole = RoleModel()
    outline: OfRole = RoleModel()
    write: OfRole = RoleModel()
    reflect: OfRole = RoleModel()
    judge: OfRole = RoleModel()
    figure_review: OfRole = RoleModel()
    ablation_plan: OfRole = RoleModel()
    missing_ablations: OfRole = RoleModel()
    cite_ask: OfRole = RoleModel()
    cite_select: OfRole = RoleModel()
    idea: OfRole = RoleModel()
    idea_reflect: OfRole = RoleModel()
    related_work: OfRole = RoleModel()
    proposal: OfRole = RoleModel()
    idea_of: OfRole = RoleModel()
    digest: OfRole = RoleModel()
    prefer: OfRole = RoleModel()
    judge_notes: OfRole = RoleModel()
    fallbacks: tuple[Annotated[Alternative, BeforeValidator(_named)], ...] = Field(
        default=(), description="models that answer, in this order, while the role's own is unavailable")
    output: Output = Field(
        default="auto", description="how answers keep to their schema: by a tool, the provider's own JSON schema, or "
                                    "the prompt; auto: the first of these that the model takes")
    context_tokens: int | None = Field(
        default=None, ge=1024, description="tokens that a model reads at once; None: asked of the server, or listed")
    prices: dict[str, Price] = Field(
        default_factory=dict[str, Price],
        description="{NAME: {input: 3.0, output: 15.0, cached: 0.3}} in USD per million tokens, where the public list "
                    "is not right or does not know a model")
    temperatures: dict[Role, float] = Field(
        default_factory=lambda: dict(_TEMPERATURES), description="by role; a part is enough"
    )
    max_tokens: dict[Role, int] = Field(
        default_factory=lambda: dict(_MAX_TOKENS),
        description="tokens that an answer may have, by role; with a model that thinks, its thoughts count too",
    )
    timeout: float = Field(default=600.0, gt=0, description="seconds for one request to the provider")
    retries: int = Field(
        default=2, ge=0, le=10, description="further tries after a transport error (429, 5xx, connection)"
    )
    output_retries: int = Field(
        default=2, ge=0, le=5, description="further tries after an answer that does not fit its schema"
    )
    retry_wait: float = Field(
        default=2.0, ge=0, description="seconds before the first further try; doubled for each next one"
    )
    retry_wait_cap: float = Field(
        default=60.0, ge=0, description="seconds at most before a further try, Retry-After included"
    )
    outage_timeout: float = Field(
        default=6 * 3600.0, ge=0, description="seconds that a run waits for a provider that is down; then it ends"
    )
    outage_wait: float = Field(
        default=30.0, gt=0, description="seconds before a provider that is down is asked again; doubled each time"
    )
    outage_wait_cap: float = Field(
        default=600.0, gt=0, description="seconds at most between two such tries; a quota is waited out in one piece"
    )
    keep_prompts: bool = Field(
        default=True, description="keep what models are asked in the run's folder, in prompts/ (docs/telemetry.md)")
    telemetry: Collector = Field(
        default=None, description="address of an OpenTelemetry collector (OTLP over HTTP) that is sent a span of each "
                                  "model call, as http://127.0.0.1:4318; None: nothing is sent")
    telemetry_content: bool = Field(
        default=False, description="send prompts and answers with the spans too")

    @field_validator("temperatures")
    @classmethod
    def _all_temperatures(cls, given: dict[Role, float]) -> dict[Role, float]:
        wrong = {role: value for role, value in given.items() if not 0 <= value <= 2}
        if wrong:
            raise ValueError(f"a temperature lies between 0 and 2, not {wrong!r}")
        return {**_TEMPERATURES, **given}

    @field_validator("max_tokens")
    @classmethod
    def _all_max_tokens(cls, given: dict[Role, int]) -> dict[Role, int]:
        wrong = {role: value for role, value in given.items() if value < 1}
        if wrong:
            raise ValueError(f"max_tokens must be positive, not {wrong!r}")
        return {**_MAX_TOKENS, **given}

    @field_validator(*ROLES)
    @classmethod
    def _played(cls, given: RoleModel, info: ValidationInfo) -> RoleModel:
        if given.name is False and info.field_name != "vision":
            raise ValueError(f"models.{info.field_name} cannot be false: only the role vision may be left out")
        return given

    @field_validator("fallbacks")
    @classmethod
    def _real_ones(cls, given: tuple[Alternative, ...]) -> tuple[Alternative, ...]:
        if any(one.name == "offline" for one in given):
            raise ValueError("the offline model stands in for no other: it knows one study only")
        return given

    def of(self, role: Role) -> RoleModel:
        """What a role has of its own. Who looks at figures looks at those of the paper, unless it has a model too."""
        own: RoleModel = getattr(self, role)
        if role == "figure_review" and own.name is None:
            return own.model_copy(update={"name": self.vision.name, "base_url": self.vision.base_url})
        return own

    def temperature(self, role: Role) -> float:
        """The sampling temperature of a role."""
        own = self.of(role).temperature
        return self.temperatures[role] if own is None else own

    def tokens(self, role: Role) -> int:
        """The most tokens that an answer of a role may have."""
        return self.of(role).max_tokens or self.max_tokens[role]

    def candidates(self, role: Role) -> tuple[ModelSettings, ...]:
        """Settings of one model each: the role's own, then those that stand in. Empty where nobody plays the role."""
        own = self.of(role)
        if own.name is False:
            return ()
        return (self._one(own.name or self.name, own.base_url),
                *(self._one(other.name, other.base_url) for other in self.fallbacks))

    def alone(self, called: str) -> ModelSettings:
        """These settings for one model that plays every role, called NAME or NAME@ADDRESS; without a stand-in."""
        name, at, rest = called.partition("@http")
        return self._one(name, f"http{rest}" if at else self.base_url if self.name == "offline" else None)

    def _one(self, name: str, base_url: str | None) -> ModelSettings:
        """These settings for one model. The common address goes with models of the same provider."""
        shared = self.base_url if _provider(name) == _provider(self.name) else None
        return self.model_copy(update={
            "name": name, "base_url": base_url or shared, "fallbacks": (), **{role: RoleModel() for role in ROLES}})

    @property
    def distinct(self) -> tuple[ModelSettings, ...]:
        """Every model that may be asked, once, as settings of one model each."""
        found = {(one.name, one.base_url): one for role in ROLES for one in self.candidates(role)}
        return tuple(found.values())

    @property
    def called(self) -> str:
        """Every model that may be asked, in words: `anthropic:a (vision, judge: openai:b; standing in: ollama:c)`."""
        roles: dict[str, list[str]] = {}
        for role in ROLES:
            for one in self.candidates(role)[:1]:
                roles.setdefault(one.name, []).append(role)
        common = roles.pop(self.name, None)
        others = [f"{', '.join(played)}: {name}" for name, played in roles.items()]
        others += [f"standing in: {', '.join(one.name for one in self.fallbacks)}"] if self.fallbacks else []
        if common is None:
            return "; ".join(others)
        return f"{self.name} ({'; '.join(others)})" if others else self.name

    @property
    def answer_limit(self) -> float:
        """Seconds for one answer with all its retries, by each model that may stand in; beyond it the door gives up."""
        requests = self.retries + self.output_retries + 1
        return (1 + len(self.fallbacks)) * (requests * self.timeout + self.retries * self.retry_wait_cap)


def _provider(name: str) -> str:
    return name.partition(":")[0]
