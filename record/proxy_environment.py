"""What the environment says of connections: proxies and certificates, which HTTP clients read by themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping

_PROXY_VARIABLES = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def normalise_no_proxy(environ: MutableMapping[str, str]) -> None:
    """Rewrite what clients stumble over in NO_PROXY: `[::1]` without brackets, and no networks of IPv6 (`fd00::/8`),
    in which no name of a server is."""
    for name in [name for name in environ if name.upper() == "NO_PROXY"]:
        kept = [one.strip() for one in environ[name].split(",") if not (":" in one and "/" in one and "://" not in one)]
        environ[name] = ",".join(one[1:-1] if one.startswith("[") and one.endswith("]") else one for one in kept)


def format_connection_advice(error: Exception, environ: Mapping[str, str] = os.environ) -> str:
    """What to change where a client could not be made from the environment; begins with a semicolon."""
    names = _CERTIFICATE_VARIABLES if isinstance(error, OSError) else _PROXY_VARIABLES
    named = [name for name in environ if name.upper() in names and environ[name]]
    if isinstance(error, ImportError) and "socks" in str(error).lower():
        proxies = [name for name in named if environ[name].lower().startswith("socks")]
        return f"; pip install socksio, or unset {' and '.join(proxies) or 'the proxy'}"
    return f"; correct {' or '.join(named)}" if named else ""
