"""Environment variables for connections: proxies and certificates, which HTTP clients read on their own."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping

_PROXY_VARIABLES = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def normalise_no_proxy(environ: MutableMapping[str, str]) -> None:
    """Rewrite NO_PROXY entries that HTTP clients reject: `[::1]` loses its brackets, IPv6 networks (`fd00::/8`) are
    removed.

    Server names never match an IPv6 network, so no valid entry is lost.
    """
    for name in [name for name in environ if name.upper() == "NO_PROXY"]:
        kept = [one.strip() for one in environ[name].split(",") if not (":" in one and "/" in one and "://" not in one)]
        environ[name] = ",".join(one[1:-1] if one.startswith("[") and one.endswith("]") else one for one in kept)


def format_connection_advice(error: Exception, environ: Mapping[str, str] = os.environ) -> str:
    """Return advice for an environment in which no client could be created; it starts with a semicolon."""
    names = _CERTIFICATE_VARIABLES if isinstance(error, OSError) else _PROXY_VARIABLES
    named = [name for name in environ if name.upper() in names and environ[name]]
    if isinstance(error, ImportError) and "socks" in str(error).lower():
        proxies = [name for name in named if environ[name].lower().startswith("socks")]
        return f"; pip install socksio, or unset {' and '.join(proxies) or 'the proxy'}"
    return f"; correct {' or '.join(named)}" if named else ""
