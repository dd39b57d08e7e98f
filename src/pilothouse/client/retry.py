"""When a request is sent again. A pure table, after client-go ``rest/with_retry.go`` and ``rest/request.go`` (v0.36).

==========================================  =======  ==================================================
answer                                      verb     reaction
==========================================  =======  ==================================================
429 or 5xx with an integer ``Retry-After``  all      wait that long, take a token, repeat
429 or 5xx without                          all      the caller's error
connection lost, EOF                        GET      wait 1 s, take a token, repeat
connection lost, EOF, timeout               watch    the same; in the end an empty, closed watch
refused, TLS, anything else                 all      the caller's error
==========================================  =======  ==================================================

A write is never repeated after a lost connection: it may have happened.
"""

from pilothouse.api import wire
from pilothouse.client.errors import is_connection_lost

MAX_RETRIES = 10
"""How often a request is repeated, at most."""


def retry_after(response: wire.Response | wire.Stream) -> int | None:
    """The seconds to wait before retrying because of this response, or None."""
    if response.status != 429 and response.status < 500:
        return None
    text = response.headers.get("retry-after", "").strip()
    # Upstream accepts what strconv.Atoi parses; dates, the header's other form, are ignored.
    digits = text[1:] if text[:1] in {"+", "-"} else text
    return max(0, int(text)) if digits.isascii() and digits.isdigit() else None


def retry_error_after(error: Exception, *, method: str, watch: bool) -> float | None:
    """The seconds to wait before retrying because there was no response, or None."""
    if watch:
        return 1.0 if is_connection_lost(error) or isinstance(error, TimeoutError) else None
    return 1.0 if method == "GET" and is_connection_lost(error) else None
