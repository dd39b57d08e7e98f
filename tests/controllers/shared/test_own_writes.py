"""Errors after which a write may have been committed."""

from tests.tables import cases

from pilothouse.api.meta import Status, StatusDetails
from pilothouse.client.errors import ApiError, ConnectionLost, ConnectionRefused
from pilothouse.controllers.shared.own_writes import may_have_happened

WAIT = StatusDetails(retry_after_seconds=2)
AGAIN = "could not be completed at this time, please try again."


def answer(code: int, reason: str, message: str = "", details: StatusDetails | None = None) -> ApiError:
    return ApiError(Status(code=code, reason=reason, message=message, details=details))


@cases(
    "error, expected",
    {
        "the connection broke": (ConnectionLost("broken"), True),
        "timeout": (TimeoutError("10 s"), True),
        "connection refused": (ConnectionRefused("nobody"), False),
        "forbidden": (answer(403, "Forbidden"), False),
        "generated name exists": (answer(409, "AlreadyExists"), False),
        "generated name exists, servers before v1.23": (
            answer(500, "ServerTimeout", f"The POST operation against Pod {AGAIN}"),
            False,
        ),
        "the store did not answer in time": (
            answer(500, "ServerTimeout", f"The create operation against pods {AGAIN}", WAIT),
            True,
        ),
        "the server failed": (answer(500, "InternalError"), True),
        "gateway timeout": (answer(504, "Timeout"), True),
    },
)
def test_undecided_write_errors(error: Exception, expected: bool) -> None:
    assert may_have_happened(error) is expected
