"""Errors of model calls, classified by who must act next.

    ModelError
        ModelConfigError      you: a model name, key, address or setting is wrong; nothing was asked
        ModelUnavailable      wait, or check the provider: it is down, too slow or over its limits
          QuotaSpent wait: a quota is used up until a time that the provider may have reported
          AccessLost renew the key or choose another model: one that worked no longer does
          ProviderDown wait: the run has waited for the maximum time, and can be resumed
        ModelRefused          you: the provider will not answer this request (key, rights, policy)
          ContextTooLong      you: the prompt exceeds the model's context; choose another model or a larger context
          ImagesRefused nobody: the model accepts no images; figures are then checked only by the program
        ModelOutputInvalid    you: the model does not follow the answer's schema; choose another
          AnswerCut           the retry layer, which allows more tokens; then you: the answer exceeds the limit
        BudgetSpent           you: the budget has no room for the call; resume with a higher one
        CatalogueError        you: the offline researcher has no study for this idea; configure a model

Messages are one line and never contain a key.
"""

from __future__ import annotations

from labwright.record.errors import UsageError, UserError
from labwright.record.schema.decisions import TokenUsage


class ModelError(UserError):
    """A model call failed. `billed`: whether the request may be billed anyway."""

    billed = True


class ModelConfigError(ModelError, UsageError):
    """The configured model cannot be used; nothing was asked."""

    billed = False


class ModelUnavailable(ModelError):
    """The provider did not answer within the configured limits. `lost`: usage that may be billed anyway."""

    billed = False
    lost = TokenUsage(usd=0.0, cached_usd=0.0)


class QuotaSpent(ModelUnavailable):
    """A quota or the account's credit is used up; `seconds` is the time until the provider accepts requests again, if
    reported.
    """

    def __init__(self, message: str, seconds: float | None = None) -> None:
        super().__init__(message)
        self.seconds = seconds


class AccessLost(ModelUnavailable):
    """A key, model or address that worked earlier in this process is no longer accepted or available."""


class ProviderDown(ModelUnavailable):
    """The provider did not recover within the time that the run may wait."""


class ModelRefused(ModelError):
    """The provider refused to answer."""


class ContextTooLong(ModelRefused):
    """The prompt and an answer do not fit into the model's context."""

    billed = False


class ImagesRefused(ModelRefused):
    """The model accepts no images."""

    billed = False


class ModelOutputInvalid(ModelError):
    """The model's answer did not fit its schema, even after the model was shown the error."""


class AnswerCut(ModelOutputInvalid):
    """The answer was truncated after `tokens`. `usage` includes its failed tries."""

    def __init__(self, message: str, *, tokens: int, usage: TokenUsage, retries: int) -> None:
        super().__init__(message)
        self.tokens = tokens
        self.usage = usage
        self.retries = retries


UNUSABLE_ANSWER_ERRORS = (ModelOutputInvalid, ModelRefused)
"""Errors that mean one question got no usable answer although the model is available."""


class BudgetSpent(ModelError):
    """The budget has no room for the maximum cost of the call; nothing was asked.

    `optional`: the call is left out, and the run continues.
    """

    billed = False

    def __init__(self, message: str, *, optional: bool = False) -> None:
        super().__init__(message)
        self.optional = optional


class CatalogueError(ModelError, UsageError):
    """The offline researcher has no study for the request."""

    billed = False
