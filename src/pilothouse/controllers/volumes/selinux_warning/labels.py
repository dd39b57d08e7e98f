"""SELinux labels, as far as they can be told without a node. Pure.

Upstream: v1.36 ``pkg/controller/volume/selinuxwarning/translator/selinux_translator.go`` and
``…/internal/parse/selinux_label.go``. A kubelet fills in what a label lacks from its ``/etc/selinux``; a manager does
not run there.
"""

from pilothouse.controllers.volumes.selinux_warning.views import SELinuxOptions

_PARTS = 4
_EMPTY = ":" * (_PARTS - 1)


def label_of(options: SELinuxOptions) -> str:
    """``user:role:type:level`` with what is said of them; nothing if nothing is."""
    label = f"{options.user}:{options.role}:{options.type}:{options.level}"
    return "" if label == _EMPTY else label


def parts_of(label: str) -> tuple[str, ...]:
    """User, role, type and level, empty where the label says nothing. A level has colons of its own."""
    parts = label.split(":", _PARTS - 1)
    return (*parts, *[""] * (_PARTS - len(parts)))


def labels_clash(one: str, other: str) -> bool:
    """Whether a volume cannot be mounted with both on one node.

    User, role and type that one of them leaves out may be what the other one says. The level may not: nobody fills it
    in, so that without one a volume is mounted differently (kubernetes#133425).
    """
    *named, level = zip(parts_of(one), parts_of(other), strict=True)
    return level[0] != level[1] or any(a != b for a, b in named if a and b)
