"""Functions of OpenSSL that Python's ``ssl`` does not have, called by ``ctypes``.

Go's servers request a client certificate and accept any; the program verifies it, and responds with 401 to an invalid
one (``tls.RequestClientCert``). Python can only verify during the handshake, which then fails. ``tls`` uses these
functions if they are available: they are not on other Python implementations, on releases with an unknown struct
layout, and where OpenSSL is linked without symbols.
"""

import ssl
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    import _ssl
    import ctypes

_FIRST, _BEYOND = (3, 11), (3, 15)
"""Releases of CPython in which ``SSL_CTX *ctx`` is the first field of an ``SSLContext`` (Modules/_ssl.c)."""

_SET_GROUPS_LIST = 92
"""``SSL_CTRL_SET_GROUPS_LIST`` (OpenSSL include/openssl/ssl.h, 1.1 and 3)."""


def accept_any_client_certificate(context: ssl.SSLContext) -> bool:
    """Accept any client certificate in handshakes. Returns whether that is possible.

    The client still has to prove that it has the private key. The caller must verify everything else.
    """
    library, pointer = _library(), _pointer(context)
    if library is None or pointer is None:
        return False
    library.SSL_CTX_set_cert_verify_callback(pointer, _accept_callback(), None)
    return True


def known_groups(names: Sequence[str]) -> tuple[str, ...] | None:
    """Those of these groups that this OpenSSL supports; None if groups cannot be configured."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if _library() is None or _pointer(context) is None:
        return None
    return tuple(name for name in names if set_groups(context, [name]))


def set_groups(context: ssl.SSLContext, names: Sequence[str]) -> bool:
    """Restrict key exchange to these groups, in order of preference. Returns whether that is possible."""
    library, pointer = _library(), _pointer(context)
    if library is None or pointer is None:
        return False
    supported = bool(library.SSL_CTX_ctrl(pointer, _SET_GROUPS_LIST, 0, ":".join(names).encode()) == 1)
    # OpenSSL keeps errors per thread until they are read, and the next caller would get this one.
    library.ERR_clear_error()
    return supported


def _pointer(context: ssl.SSLContext) -> int | None:
    """The ``SSL_CTX`` of a context, or None if it is not at the expected place."""
    library = _library()
    if library is None:
        return None
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
    # Python and OpenSSL have the same verify mode, 0 or 1; any other pointer would hardly return it.
    return pointer if pointer and library.SSL_CTX_get_verify_mode(pointer) == int(context.verify_mode) else None


@cache
def _library() -> Any:
    """The libssl of this Python, or None."""
    if sys.implementation.name != "cpython" or not _FIRST <= sys.version_info[:2] < _BEYOND:
        return None
    try:
        # Through the extension module, so that it is the library which has created the context.
        library = ctypes.CDLL(_ssl.__file__)
        library.SSL_CTX_get_verify_mode.argtypes = [ctypes.c_void_p]
        library.SSL_CTX_get_verify_mode.restype = ctypes.c_int
        library.SSL_CTX_set_cert_verify_callback.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        library.SSL_CTX_set_cert_verify_callback.restype = None
        library.SSL_CTX_ctrl.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_char_p]
        library.SSL_CTX_ctrl.restype = ctypes.c_long
        library.ERR_clear_error.argtypes = []
        library.ERR_clear_error.restype = None
    except (AttributeError, OSError):
        return None
    return library


@cache
def _accept_callback() -> Any:
    """A C callback that returns 1. Kept permanently, because OpenSSL does not own it."""
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda _store, _argument: 1)
