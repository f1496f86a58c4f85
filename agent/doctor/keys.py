"""Which keys of providers the environment holds, by name. No value, no part of one and no length is ever shown."""

from __future__ import annotations

from collections.abc import Mapping

from agent.doctor.finding import Finding, ok, warning

NAMES = (
    "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY",
    "GROQ_API_KEY", "MISTRAL_API_KEY", "TOGETHER_API_KEY", "FIREWORKS_API_KEY", "AZURE_OPENAI_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "OLLAMA_API_KEY", "HF_TOKEN", "S2_API_KEY",
    "OPENALEX_MAIL_ADDRESS",
)
_PLACEHOLDERS = ("...", "changeme", "your-", "your_", "<", "xxx")


def keys(environment: Mapping[str, str]) -> Finding:
    """The names of the keys that are set, and those that cannot be right."""
    held = [name for name in NAMES if name in environment]
    doubts = [f"{name} {why}" for name in held if (why := doubt(environment[name]))]
    good = [name for name in held if not doubt(environment[name])]
    found = ", ".join(good) or "none set: only the offline model and servers of your own can be used"
    if doubts:
        return warning("keys", f"{found}; {', '.join(doubts)}", "export it again, without quotes and spaces inside")
    return ok("keys", found)


def doubt(value: str) -> str:
    """What cannot be right about a key, without telling anything of it; empty where nothing is."""
    if not value.strip():
        return "is empty"
    if value != value.strip() or any(space in value for space in (" ", "\t", "\n", "\r")):
        return "holds white space"
    if value[0] in "\"'" or value[-1] in "\"'":
        return "holds quotes"
    return "is a placeholder" if value.lower().startswith(_PLACEHOLDERS) else ""
