"""Who is at the other end of a TLS connection, as far as a client certificate says."""

from collections.abc import Mapping
from typing import Any

import msgspec

EXTENSION = "tls"
"""The key in an ASGI scope's ``extensions``; its value is a dict with ``peer``."""


class Peer(msgspec.Struct, frozen=True, gc=False):
    """A client certificate that was verified against the server's client authority."""

    certificate: bytes
    """The certificate itself, DER."""
    common_name: str = ""
    organizations: tuple[str, ...] = ()


def peer_of(scope: Mapping[str, Any]) -> Peer | None:
    """The verified client certificate of the connection that a request came over; None without one."""
    extension = (scope.get("extensions") or {}).get(EXTENSION)
    peer: Peer | None = extension.get("peer") if extension else None
    return peer


def read_peer(tls: Any) -> Peer | None:
    """The peer of an ``SSLObject`` after its handshake; None when it showed no certificate, or nobody asked for one."""
    certificate = tls.getpeercert(binary_form=True)
    verified = tls.getpeercert() if certificate else None
    # OpenSSL describes a certificate only when it has verified it; without that, it proves nothing.
    if not verified:
        return None
    common_name = ""
    organizations = []
    for name in verified.get("subject", ()):
        for attribute, value in name:
            if attribute == "commonName":
                common_name = value
            elif attribute == "organizationName":
                organizations.append(value)
    return Peer(certificate, common_name, tuple(organizations))
