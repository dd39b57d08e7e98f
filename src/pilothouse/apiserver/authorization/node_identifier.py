"""The node name of a user (kubernetes ``pkg/auth/nodeidentifier/default.go``, v1.36)."""

from pilothouse.apiserver.authentication.identity import Identity

USER_PREFIX = "system:node:"
GROUP = "system:nodes"


def node_identity(identity: Identity) -> str | None:
    """The name of the node of a user, empty if the user name has none; None for other users."""
    if not identity.user.startswith(USER_PREFIX) or GROUP not in identity.groups:
        return None
    return identity.user.removeprefix(USER_PREFIX)
