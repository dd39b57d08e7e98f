"""The peer of a TLS connection, from its client certificate."""

import ssl
from collections.abc import Mapping
from typing import Any

import msgspec

_USER_ID = "1.3.6.1.4.1.57683.2"
"""``asn1util.X509UID`` (apiserver v0.36). OpenSSL has no name for it."""

EXTENSION = "tls"
"""The key in an ASGI scope's ``extensions``; its value is a dict with ``peer`` and ``refusal``."""


AUTHENTICATED = "pilothouse.authenticated"
"""The key in an ASGI scope's ``extensions`` of the callback of ``mark_authenticated``."""


class Peer(msgspec.Struct, frozen=True, gc=False):
    """A client certificate. ``peer_of`` only returns verified ones; ``presented_by`` any."""

    certificate: bytes
    """The certificate in DER."""
    common_name: str = ""
    organizations: tuple[str, ...] = ()
    chain: tuple[bytes, ...] = ()
    """The chain of the client in DER, its own certificate first."""
    uids: tuple[str, ...] = ()
    """UIDs of the user in the subject: an attribute of Kubernetes, of which there should be at most one."""


def peer_of(scope: Mapping[str, Any]) -> Peer | None:
    """The client certificate of a request's connection, if it was verified by the server's client CA; None
    otherwise."""
    extension = (scope.get("extensions") or {}).get(EXTENSION)
    peer: Peer | None = extension.get("peer") if extension and not extension.get("refusal") else None
    return peer


def presented_by(scope: Mapping[str, Any]) -> tuple[Peer | None, str]:
    """The client certificate, and why it is not trusted, or ""."""
    extension = (scope.get("extensions") or {}).get(EXTENSION) or {}
    return extension.get("peer"), extension.get("refusal") or ""


def mark_authenticated(scope: Mapping[str, Any]) -> None:
    """Mark the connection as authenticated: it is not closed to make room for others."""
    callback = (scope.get("extensions") or {}).get(AUTHENTICATED)
    if callback is not None:
        callback()


def read_peer(tls: Any) -> Peer | None:
    """The peer of an ``SSLObject`` after its handshake; None without a certificate."""
    certificate = tls.getpeercert(binary_form=True)
    if not certificate:
        return None
    # Public from Python 3.13 on (as bytes); before, only on the internal object.
    chain = (
        tls.get_unverified_chain()
        if hasattr(tls, "get_unverified_chain")
        else [ssl.PEM_cert_to_DER_cert(c.public_bytes()) for c in tls._sslobj.get_unverified_chain() or ()]
    )
    common_name = ""
    organizations, uids = [], []
    try:
        subject = tls.getpeercert().get("subject", ())
    except (ValueError, ssl.SSLError):
        subject = ()  # a certificate that OpenSSL can't decode has no subject
    for name in subject:
        for attribute, value in name:
            if attribute == "commonName":
                common_name = value
            elif attribute == "organizationName":
                organizations.append(value)
            elif attribute == _USER_ID:
                uids.append(value)
    return Peer(certificate, common_name, tuple(organizations), tuple(chain), tuple(uids))
