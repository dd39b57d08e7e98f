"""Comparison of resourceVersions, as far as it is defined.

Since 1.35 they can be compared if both are positive decimals without leading zero (KEP-5504); all others are opaque.
Used by the consistency store and the caches.
"""

from pilothouse.machinery.go_text import quote

_LARGEST = (1 << 64) - 1


def parse(version: str) -> int:
    """The revision of a client's resourceVersion. Raises ``ValueError`` with the message of Go's
    ``strconv.ParseUint``."""
    if not (version.isascii() and version.isdigit()):
        raise ValueError(f"strconv.ParseUint: parsing {quote(version)}: invalid syntax")
    digits = version.lstrip("0") or "0"
    if len(digits) > 20 or int(digits) > _LARGEST:
        raise ValueError(f"strconv.ParseUint: parsing {quote(version)}: value out of range")
    return int(digits)


def _is_ordered(version: str) -> bool:
    return version.isascii() and version.isdigit() and version[0] != "0"


def compare(a: str, b: str) -> int | None:
    """-1, 0 or 1 as ``a`` is older than, equal to or newer than ``b``; ``None`` if they cannot be compared."""
    if not (_is_ordered(a) and _is_ordered(b)):
        return None
    if a == b:
        return 0
    # By length first: "99" < "100"; with equal length as text: "199" < "200".
    return -1 if (len(a), a) < (len(b), b) else 1


def is_newer(a: str, than: str) -> bool:
    """Whether ``a`` is known to be newer. False if they cannot be compared."""
    return compare(a, than) == 1
