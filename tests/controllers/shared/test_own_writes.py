"""Which failed writes may have happened all the same."""

import pytest

from pilothouse.api.meta import Status, StatusDetails
from pilothouse.client.errors import ApiError, ConnectionLost, ConnectionRefused
from pilothouse.controllers.shared.own_writes import may_have_happened

WAIT = StatusDetails(retry_after_seconds=2)
AGAIN = "could not be completed at this time, please try again."


def answer(code: int, reason: str, message: str = "", details: StatusDetails | None = None) -> ApiError:
    return ApiError(Status(code=code, reason=reason, message=message, details=details))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(ConnectionLost("broken"), True, id="the connection broke"),
        pytest.param(TimeoutError("10 s"), True, id="nobody answered in time"),
        pytest.param(ConnectionRefused("nobody"), False, id="nobody listened"),
        pytest.param(answer(403, "Forbidden"), False, id="it was refused"),
        pytest.param(answer(409, "AlreadyExists"), False, id="the generated name was taken"),
        pytest.param(
            answer(500, "ServerTimeout", f"The POST operation against Pod {AGAIN}"),
            False,
            id="the generated name was taken, as servers before v1.23 say it",
        ),
        pytest.param(
            answer(500, "ServerTimeout", f"The create operation against pods {AGAIN}", WAIT),
            True,
            id="the store did not answer in time",
        ),
        pytest.param(answer(500, "InternalError"), True, id="the server failed"),
        pytest.param(answer(504, "Timeout"), True, id="a gateway gave up"),
    ],
)
def test_a_failed_write_may_have_happened(error: Exception, expected: bool) -> None:
    assert may_have_happened(error) is expected
