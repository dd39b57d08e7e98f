"""The flag that enables the garbage collector. Controllers that use its monitors read it, too."""

from pilothouse.machinery.flags import BOOL, Flag

ENABLE_GARBAGE_COLLECTOR = Flag(
    "enable-garbage-collector",
    BOOL,
    True,
    "Enables the generic garbage collector. MUST be synced with the corresponding flag of the kube-apiserver.",
)
