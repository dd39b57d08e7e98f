"""Checks that the ``Host`` of a request is this machine, against DNS rebinding.

A web page whose host name resolves to 127.0.0.1 can reach servers of the reader's machine, and has the same origin. Its
requests still have the page's host name.
"""

import ipaddress
from collections.abc import Collection


def is_own_host(host: str, names: Collection[str]) -> bool:
    """Whether a Host header is this machine: one of ``names``, in lower case, or an IP address, which DNS rebinding
    cannot use."""
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
