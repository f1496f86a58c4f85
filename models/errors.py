"""What can go wrong with a call of a model, named by who acts next.

    ModelError
        ModelConfigError      you: a model name, key, address or setting is wrong; nothing was asked
        ModelUnavailable      wait, or look at the provider: it is down, too slow or over its limits
          QuotaSpent          wait: a quota is used up, until a time that the provider may have told
          AccessLost          renew the key or choose a model at the provider: one that has worked no longer does
          ProviderDown        wait: the run has waited as long as it may, and can be resumed
        ModelRefused          you: the provider will not answer this request (key, rights, policy)
          ContextTooLong      you: the prompt is longer than the model reads; choose another, or give it more context
          ImagesRefused       nobody: the model accepts no images; figures are then checked by program only
        ModelOutputInvalid    you: the model cannot keep to the answer's schema; choose another
          AnswerCut           the retry layer, which asks with more room; then you: the answer is longer than it may be
        BudgetSpent           you: the budget has no room for the call; resume with a higher one
        CatalogueError        you: the offline researcher has no study for this idea; configure a model

Messages are one line and never hold a key.
"""

from __future__ import annotations

from labwright.record.errors import UsageError, UserError
from labwright.record.schema.decisions import TokenUsage


class ModelError(UserError):
    """Something went wrong with a call of a model. `billed`: whether it may have to be paid for all the same."""

    billed = True


class ModelConfigError(ModelError, UsageError):
    """The configured model cannot be used; nothing was asked."""

    billed = False


class ModelUnavailable(ModelError):
    """The provider did not answer, within the bounds that were set."""

    billed = False


class QuotaSpent(ModelUnavailable):
    """A quota or the account's credit is used up. `seconds` until the provider takes requests again, where told."""

    def __init__(self, message: str, seconds: float | None = None) -> None:
        super().__init__(message)
        self.seconds = seconds


class AccessLost(ModelUnavailable):
    """A key is no longer accepted, or a model or its address is gone, after it has answered in this process."""


class ProviderDown(ModelUnavailable):
    """The provider did not come back for as long as the run may wait."""


class ModelRefused(ModelError):
    """The provider answered that it will not answer."""


class ContextTooLong(ModelRefused):
    """The prompt and an answer do not fit into what the model reads at once."""

    billed = False


class ImagesRefused(ModelRefused):
    """The model accepts no images."""

    billed = False


class ModelOutputInvalid(ModelError):
    """The model's answer did not fit its schema, also after being shown why."""


class AnswerCut(ModelOutputInvalid):
    """The answer ended where its length does, after `tokens`. `usage` is what it took, its failed tries included."""

    def __init__(self, message: str, *, tokens: int, usage: TokenUsage, retries: int) -> None:
        super().__init__(message)
        self.tokens = tokens
        self.usage = usage
        self.retries = retries


UNUSABLE_ANSWER_ERRORS = (ModelOutputInvalid, ModelRefused)
"""One question that got no answer which can be used, while the model is there."""


class BudgetSpent(ModelError):
    """The budget has no room for the most that the call may take; nothing was asked."""

    billed = False


class CatalogueError(ModelError, UsageError):
    """The offline researcher does not know a study for what it was asked."""

    billed = False
