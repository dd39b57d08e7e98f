"""Things that OpenSSL can do for a server and Python's ``ssl`` does not pass on, reached through ``ctypes``.

Go's servers ask for a client certificate and take any; whether it is one of a known authority is then the program's
question, and a bad one is answered with 401 (``tls.RequestClientCert``). Python only offers to verify within the
handshake, which ends it. ``tls`` uses these functions and does without where they can't be had: on other
implementations of Python, on releases whose layout is not known here, and where OpenSSL is linked in without its names.
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
    """Let a handshake go on with whatever certificate the client shows. Says whether that could be arranged.

    The client still has to prove that it has the certificate's key. Nothing else about the certificate is known then:
    the caller must verify it before using it.
    """
    library, pointer = _library(), _pointer(context)
    if library is None or pointer is None:
        return False
    library.SSL_CTX_set_cert_verify_callback(pointer, _accepting(), None)
    return True


def known_groups(names: Sequence[str]) -> tuple[str, ...] | None:
    """Those of these groups that this OpenSSL can do; None where groups can't be chosen at all."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if _library() is None or _pointer(context) is None:
        return None
    return tuple(name for name in names if set_groups(context, [name]))


def set_groups(context: ssl.SSLContext, names: Sequence[str]) -> bool:
    """Restrict key exchange to these groups, best first. Says whether that could be arranged."""
    library, pointer = _library(), _pointer(context)
    if library is None or pointer is None:
        return False
    done = bool(library.SSL_CTX_ctrl(pointer, _SET_GROUPS_LIST, 0, ":".join(names).encode()) == 1)
    # OpenSSL keeps a thread's errors until they are read, and the next caller would take this one for its own.
    library.ERR_clear_error()
    return done


def _pointer(context: ssl.SSLContext) -> int | None:
    """OpenSSL's side of a context, or None when it is not where it is expected."""
    library = _library()
    if library is None:
        return None
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
    # The mode is 0 in both worlds, or 1 in both; a pointer to anything else would hardly know.
    return pointer if pointer and library.SSL_CTX_get_verify_mode(pointer) == int(context.verify_mode) else None


@cache
def _library() -> Any:
    """libssl as this Python uses it, or None."""
    if sys.implementation.name != "cpython" or not _FIRST <= sys.version_info[:2] < _BEYOND:
        return None
    try:
        # Through the extension module, so that it is the very library that made the context.
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
def _accepting() -> Any:
    """A C function that says yes. Kept for good: OpenSSL does not own it."""
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda _store, _argument: 1)
