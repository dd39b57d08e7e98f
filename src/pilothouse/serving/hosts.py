"""Whether the ``Host`` of a request names this machine, against DNS rebinding.

A web page whose name is made to resolve to 127.0.0.1 reaches servers of the reader's machine, and is of the same origin
as they are then. Its requests still say the name of the page.
"""

import ipaddress
from collections.abc import Collection


def is_own_host(host: str, names: Collection[str]) -> bool:
    """Whether a Host header names this machine: by a name of its own, in lower case, or by an address, which no DNS
    server can have made up."""
    if host.startswith("["):
        name = host[1:].partition("]")[0]
    else:
        name = host.partition(":")[0]
    name = name.lower().rstrip(".")
    if not name or name in names or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
