"""Order of resourceVersions, as far as there is one.

Since 1.35 two of them may be compared when both are positive decimals without leading zero (KEP-5504); everything else
stays opaque. The consistency guard and the caches ask here.
"""


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
