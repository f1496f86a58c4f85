"""Which family a model is of, as far as its name tells: its judges share their taste with each other, and with what
the family wrote.
"""

from __future__ import annotations

_FAMILIES = {
    "claude": "claude", "anthropic": "claude", "gpt": "gpt", "chatgpt": "gpt", "o1": "gpt", "o3": "gpt", "o4": "gpt",
    "davinci": "gpt", "gemini": "gemini", "gemma": "gemini", "llama": "llama", "codellama": "llama",
    "mistral": "mistral", "mixtral": "mistral", "ministral": "mistral", "codestral": "mistral", "devstral": "mistral",
    "qwen": "qwen", "qwq": "qwen",
    "deepseek": "deepseek", "phi": "phi", "command": "cohere", "grok": "grok", "glm": "glm", "kimi": "kimi",
    "offline": "offline"}


def family(name: str) -> str | None:
    """The family of a model, as 'anthropic:claude-x' -> 'claude'; None where the name does not tell."""
    model = name.lower().partition(":")[2] or name.lower()
    words = model.replace("/", "-").replace("_", "-").replace(".", "-").replace(":", "-").split("-")
    for word in words:
        bare = word.rstrip("0123456789")
        for known in (word, bare):
            if known in _FAMILIES:
                return _FAMILIES[known]
    return None


def alike(first: str, second: str) -> bool:
    """Whether two models are of one family, or one model, by their names."""
    known = family(first)
    return first == second or (known is not None and known == family(second))
