"""Warnings about Secrets of the type ``kubernetes.io/tls`` whose certificate and key do not fit.

After ``warningsForSecret`` in kubernetes' ``pkg/registry/core/secret/strategy.go`` (v1.36), with the errors of Go's
``tls.X509KeyPair``. What cannot be parsed has one text here; Go names the part that is malformed.
"""

import base64
import binascii
from collections.abc import Iterator

from pilothouse.apiserver.objects import Object
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.pem_blocks import pem_blocks

with lazy_imports():
    from cryptography import exceptions, x509
    from cryptography.hazmat.primitives import serialization


def warnings_for_secret(obj: Object) -> Iterator[str]:
    """The error of ``tls.X509KeyPair``, if there is one."""
    data = obj.get("data") or {}
    certificate, key = (base64.b64decode(data.get(name) or "") for name in ("tls.crt", "tls.key"))
    try:
        _load_pair(certificate, key)
    except _KeyPairError as error:
        yield str(error)


class _KeyPairError(Exception):
    """The certificate and the key do not fit, with Go's message."""


def _load_pair(certificate: bytes, key: bytes) -> None:
    blocks, others = _blocks(certificate, "CERTIFICATE")
    if not blocks:
        raise _KeyPairError(_no_certificate(others))
    keys, others = _blocks(key, "PRIVATE KEY")
    if not keys:
        raise _KeyPairError(_no_key(others))
    try:
        public_key = x509.load_der_x509_certificate(blocks[0]).public_key()
    except (ValueError, exceptions.UnsupportedAlgorithm):
        raise _KeyPairError("x509: malformed certificate") from None
    try:
        private_key = serialization.load_der_private_key(keys[0], None)
    except (ValueError, TypeError, exceptions.UnsupportedAlgorithm):
        raise _KeyPairError("tls: failed to parse private key") from None
    own_key = private_key.public_key()
    if type(own_key) is not type(public_key):
        raise _KeyPairError("tls: private key type does not match public key type")
    encoded = [
        certificate_key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        for certificate_key in (own_key, public_key)
    ]
    if encoded[0] != encoded[1]:
        raise _KeyPairError("tls: private key does not match public key")


def _blocks(text: bytes, wanted: str) -> tuple[list[bytes], list[str]]:
    """The content of the PEM blocks whose type ends with ``wanted``, and the types of all others."""
    blocks: list[bytes] = []
    others: list[str] = []
    for block in pem_blocks(text):
        kind = block.type.decode(errors="replace")
        try:
            content = base64.b64decode(b"".join(block.body.split()), validate=True)
        except binascii.Error:
            continue  # no PEM block
        if kind == wanted or (wanted == "PRIVATE KEY" and kind.endswith(f" {wanted}")):
            blocks.append(content)
        else:
            others.append(kind)
    return blocks, others


def _no_certificate(others: list[str]) -> str:
    if not others:
        return "tls: failed to find any PEM data in certificate input"
    if len(others) == 1 and others[0].endswith("PRIVATE KEY"):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may "
            "have been switched"
        )
    skipped = f"after skipping PEM blocks of the following types: [{' '.join(others)}]"
    return f'tls: failed to find "CERTIFICATE" PEM block in certificate input {skipped}'


def _no_key(others: list[str]) -> str:
    if not others:
        return "tls: failed to find any PEM data in key input"
    if others == ["CERTIFICATE"]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    skipped = f"after skipping PEM blocks of the following types: [{' '.join(others)}]"
    return f'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input {skipped}'
