"""Order of resourceVersions, as far as there is one.

Since 1.35 two of them may be compared when both are positive decimals without leading zero (KEP-5504); everything else
stays opaque. The consistency store and the caches ask here.
"""

from pilothouse.machinery.go_text import quote

_LARGEST = (1 << 64) - 1


def parse(version: str) -> int:
    """The number of a revision that a client sent. Raises ``ValueError`` in the words of Go's ``strconv.ParseUint``."""
    if not (version.isascii() and version.isdigit()):
        raise ValueError(f"strconv.ParseUint: parsing {quote(version)}: invalid syntax")
    digits = version.lstrip("0") or "0"
    if len(digits) > 20 or int(digits) > _LARGEST:
        raise ValueError(f"strconv.ParseUint: parsing {quote(version)}: value out of range")
    return int(digits)


def _is_ordered(version: str) -> bool:
    return version.isascii() and version.isdigit() and version[0] != "0"


def compare(a: str, b: str) -> int | None:
    """-1, 0 or 1 as ``a`` is older than, the same as or newer than ``b``; ``None`` when they cannot be compared."""
    if not (_is_ordered(a) and _is_ordered(b)):
        return None
    if a == b:
        return 0
    # Equal length compares as text: "99" < "100" because it is shorter, "199" < "200" because it sorts first.
    return -1 if (len(a), a) < (len(b), b) else 1


def is_newer(a: str, than: str) -> bool:
    """Whether ``a`` is certainly newer. False also when they cannot be compared."""
    return compare(a, than) == 1
