"""What a patch can fail with, and what the API server answers then.

::

    PatchError
     ├─ PatchSyntaxError      400 BadRequest   the patch itself cannot be read
     ├─ PatchTooLarge         413 RequestEntityTooLarge
     ├─ PatchNotApplicable    422 Invalid      a JSON patch does not fit the object
     └─ PatchFormatError      500, no reason   a strategic merge patch breaks the format

``json_patch``, ``merge_patch`` and ``strategic_merge`` raise these; the API server turns them into a Status.
"""


class PatchError(ValueError):
    """A patch that cannot be applied. ``str()`` is the message of the Status."""

    code = 500
    reason = ""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class PatchSyntaxError(PatchError):
    """The patch is malformed."""

    code = 400
    reason = "BadRequest"


class PatchTooLarge(PatchError):
    """More operations than one request may carry."""

    code = 413
    reason = "RequestEntityTooLarge"


class PatchNotApplicable(PatchError):
    """A ``test`` failed or a path is missing. The message is the same for all of them, as upstream's; ``detail``
    has the cause."""

    code = 422
    reason = "Invalid"

    def __init__(self, reason: str) -> None:
        super().__init__("the server rejected our request due to an error in our request")
        self.detail = reason


class PatchFormatError(PatchError):
    """A strategic merge patch that contradicts itself or the schema."""
