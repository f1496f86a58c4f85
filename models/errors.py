"""What can go wrong at the door to the models, named by who acts next.

    ModelError
        ModelConfigError      you: a model name, key, address or setting is wrong; nothing was asked
        ModelUnavailable      wait, or look at the provider: it is down, too slow or over its limits
        ModelRefused          you: the provider will not answer this request (key, rights, policy, context length)
        ModelOutputInvalid    you: the model cannot keep to the answer's schema; choose another
        CatalogueError        you: the offline researcher has no study for this idea; configure a model
        StaleAnswer           you: the run was recorded by another program version or other settings

Messages are one line and never hold a key.
"""

from __future__ import annotations


class ModelError(Exception):
    """Something at the door to the models went wrong."""


class ModelConfigError(ModelError):
    """The configured model cannot be used; nothing was asked."""


class ModelUnavailable(ModelError):
    """The provider did not answer, within the bounds that were set."""


class ModelRefused(ModelError):
    """The provider answered that it will not answer."""


class ModelOutputInvalid(ModelError):
    """The model's answer did not fit its schema, also after being shown why."""


class CatalogueError(ModelError):
    """The offline researcher does not know a study for what it was asked."""


class StaleAnswer(ModelError):
    """A committed answer belongs to another request than the one now asked under its key."""
