"""The flag that switches the garbage collector. Those that work with what it watches read it as well."""

from pilothouse.machinery.flags import BOOL, Flag

ENABLE_GARBAGE_COLLECTOR = Flag(
    "enable-garbage-collector",
    BOOL,
    True,
    "Enables the generic garbage collector. MUST be synced with the corresponding flag of the kube-apiserver.",
)
