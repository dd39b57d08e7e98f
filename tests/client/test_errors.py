"""Responses that are no Status: of proxies, of starting servers, of something else behind the address."""

import pytest

from pilothouse.api import wire
from pilothouse.client.errors import NotFound, error_of

_PAGE = b"<!DOCTYPE html>\n<html>\n  <head><title>Not here</title>\n" + b"<p>much more</p>" * 100
_NOT_FOUND = "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        ("text/plain", b"404 page not found\n", f"{_NOT_FOUND}: 404 page not found"),
        ("text/plain", b"[+]ping ok\n[-]etcd failed", f"{_NOT_FOUND}: [+]ping ok\n[-]etcd failed"),
        ("text/html", b"Gone <b>away</b>", f"{_NOT_FOUND}: the answer is no Status: text/html, Gone <b>away</b>"),
        ("", b"", _NOT_FOUND),
        *(
            (
                content_type,
                _PAGE,
                f"{_NOT_FOUND}: the answer is no Status: text/html, <!DOCTYPE html> <html> <head><title>Not here"
                "</title> <p>much more</p><p>much mor…",
            )
            for content_type in ("text/html; charset=utf-8", "")
        ),
    ],
    ids=["text", "lines", "html", "empty body", "a page", "a page without a type"],
)
def test_message_of_another_server(content_type: str, body: bytes, message: str) -> None:
    error = error_of(404, body, wire.Response(404, {"content-type": content_type}, body))
    assert isinstance(error, NotFound)
    assert str(error) == message
