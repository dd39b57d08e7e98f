"""Errors of patches, and the responses of the API server.

::

    PatchError
     ├─ PatchSyntaxError      400 BadRequest   the patch cannot be parsed
     ├─ PatchTooLarge         413 RequestEntityTooLarge
     ├─ PatchNotApplicable    422 Invalid      a JSON patch cannot be applied
     └─ PatchFormatError      500, no reason   a strategic merge patch is malformed

``json_patch``, ``merge_patch`` and ``strategic_merge`` raise these; the API server converts them to a Status.
"""


class PatchError(ValueError):
    """A patch that cannot be applied. ``str()`` is the message of the Status; ``detail`` is the error of the library
    that upstream uses."""

    code = 500
    reason = ""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = self.detail = message


class PatchSyntaxError(PatchError):
    """The patch is malformed."""

    code = 400
    reason = "BadRequest"


class PatchTooLarge(PatchError):
    """More operations than allowed."""

    code = 413
    reason = "RequestEntityTooLarge"


class PatchNotApplicable(PatchError):
    """A ``test`` failed or a path is missing. The message is always the same, as upstream's; ``detail`` has the
    cause."""

    code = 422
    reason = "Invalid"

    def __init__(self, reason: str) -> None:
        super().__init__("the server rejected our request due to an error in our request")
        self.detail = reason


class PatchFormatError(PatchError):
    """A strategic merge patch that is inconsistent or contradicts the schema."""
