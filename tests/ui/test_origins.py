"""Requests from other sites and by DNS rebinding are rejected."""

from tests.tables import cases

from pilothouse.ui.origins import check_origin

OWN = {"host": "127.0.0.1:6443"}
SAME = {**OWN, "origin": "https://127.0.0.1:6443", "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}
DATA = {
    "a program": (OWN, ""),
    "the page": (SAME, ""),
    "the page by a name of this machine": ({**OWN, "host": "localhost:6443", "origin": "https://localhost:6443"}, ""),
    "the page by a further name": ({"host": "plane.test:6443"}, ""),
    "missing Host": ({}, "the host"),
    "DNS rebinding": ({"host": "evil.test:6443"}, "the host"),
    "duplicate Host": ({"host": "evil.test:6443,127.0.0.1:6443"}, "the host"),
    "different origin": ({**OWN, "origin": "https://evil.test"}, "other sites"),
    "different port": ({**OWN, "origin": "https://127.0.0.1:8080"}, "other sites"),
    "different scheme": ({**OWN, "origin": "http://127.0.0.1:6443"}, "other sites"),
    "opaque origin": ({**OWN, "origin": "null"}, "other sites"),
    "cross-site": ({**OWN, "sec-fetch-site": "cross-site"}, "other sites"),
    "same-site": ({**OWN, "sec-fetch-site": "same-site"}, "other sites"),
}


@cases("headers, reason", DATA)
def test_data_requests_of_other_origins_are_rejected(headers: dict[str, str], reason: str) -> None:
    result = check_origin(headers, {"localhost", "plane.test"}, scheme="https", opens_page=False)
    assert result.find(reason) >= 0 if reason else not result


LINKS = {
    "a link in a mail": ({**OWN, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, ""),
    "typed": ({**OWN, "sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, ""),
    "a script of the page": ({**OWN, "sec-fetch-site": "same-origin", "sec-fetch-dest": "script"}, ""),
    "a script in another site": ({**OWN, "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, "other sites"),
    "a frame": (
        {**OWN, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
        "frames",
    ),
    "DNS rebinding": ({"host": "evil.test"}, "the host"),
}


@cases("headers, reason", LINKS)
def test_links_may_lead_to_the_page(headers: dict[str, str], reason: str) -> None:
    result = check_origin(headers, {"localhost"}, scheme="https", opens_page=True)
    assert result.find(reason) >= 0 if reason else not result
