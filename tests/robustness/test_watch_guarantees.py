"""The watch checker accepts valid watches and finds every injected violation."""

from collections.abc import Sequence

import msgspec
import pytest
from tests.robustness.watch_guarantees import (
    Event,
    Snapshot,
    Stored,
    Watch,
    expected_events,
    list_violations,
    violations,
)

HISTORY = [
    Stored(2, "/a", "1", "x"),
    Stored(3, "/b", "2", "x"),
    Stored(5, "/a", "3", "y"),
    Stored(6, "/b", "2", "x", deleted=True),
    Stored(7, "/c", "4", "x"),
    Stored(7, "/d", "5", "x"),
    Stored(9, "/b", "6", "y"),
]
ALL = [
    Event("ADDED", 2, "/a", "1"),
    Event("ADDED", 3, "/b", "2"),
    Event("MODIFIED", 5, "/a", "3"),
    Event("DELETED", 6, "/b", "2"),
    Event("ADDED", 7, "/c", "4"),
    Event("ADDED", 7, "/d", "5"),
    Event("ADDED", 9, "/b", "6"),
]
MARK = Event("BOOKMARK", 8)


def test_expected_watch_events() -> None:
    assert expected_events(HISTORY, "", None) == ALL
    assert expected_events(HISTORY, "/a", None) == [ALL[0], ALL[2]]
    assert expected_events(HISTORY, "", "x") == [
        *ALL[:2],
        Event("DELETED", 5, "/a", "1"),
        *ALL[3:6],
    ]
    assert expected_events(HISTORY, "", "y") == [Event("ADDED", 5, "/a", "3"), ALL[6]]


@pytest.mark.parametrize(
    "watch",
    [
        pytest.param(Watch(0, ALL), id="complete"),
        pytest.param(Watch(0, ALL[:3]), id="broken off"),
        pytest.param(Watch(3, ALL[2:]), id="from the middle"),
        pytest.param(Watch(0, []), id="no events"),
        pytest.param(Watch(0, [*ALL[:6], MARK, ALL[6]]), id="a bookmark"),
        pytest.param(Watch(0, [*ALL[:6], Event("BOOKMARK", 7), ALL[6]]), id="a bookmark at the last revision"),
        pytest.param(Watch(7, [MARK]), id="only a bookmark"),
        pytest.param(Watch(0, expected_events(HISTORY, "", "x"), label="x"), id="a selector"),
    ],
)
def test_valid_watches_are_accepted(watch: Watch) -> None:
    assert violations(HISTORY, [watch]) == []


@pytest.mark.parametrize(
    ("events", "message"),
    [
        pytest.param([ALL[1], ALL[0]], "ordered: 2 after 3", id="out of order"),
        pytest.param([*ALL[:2], ALL[1]], "unique: /b at 3 comes twice", id="doubled"),
        pytest.param([*ALL[:2], ALL[3]], "reliable: /a at 5 is left out", id="lost in the middle"),
        pytest.param(ALL[1:], "resumable: /a at 2 is left out", id="lost at the beginning"),
        pytest.param([*ALL[:5], MARK], "reliable: /d at 7 is left out", id="partial revision"),
        pytest.param([*ALL[:5], MARK, ALL[5]], "atomic: /d at 7", id="a revision in two pieces"),
        pytest.param([MARK], "resumable: /a at 2", id="a bookmark beyond what was sent"),
        pytest.param([*ALL[:6], MARK, Event("BOOKMARK", 7)], "bookmarkable: a bookmark at 7", id="bookmarks decrease"),
        pytest.param([MARK, *ALL], "bookmarkable: /a at 2 after", id="events after their bookmark"),
        pytest.param(
            [msgspec.structs.replace(ALL[0], type="MODIFIED")], "filtered: MODIFIED", id="different event type"
        ),
        pytest.param([msgspec.structs.replace(ALL[0], value="7")], "filtered: ADDED /a at 2", id="different value"),
        pytest.param([*ALL, Event("ADDED", 10, "/e", "9")], "filtered: ADDED /e", id="object that was never stored"),
    ],
)
def test_injected_violations_are_detected(events: Sequence[Event], message: str) -> None:
    result = violations(HISTORY, [Watch(0, events)])
    assert any(message in item for item in result), result


@pytest.mark.parametrize(
    ("watches", "message"),
    [
        pytest.param([Watch(5, ALL[2:3])], "bookmarkable: /a at 5", id="initial events"),
        pytest.param([Watch(0, ALL, label="x")], "filtered: MODIFIED /a at 5", id="filtered by selector"),
        pytest.param([Watch(0, ALL, prefix="/a")], "filtered: ADDED /b", id="filtered by prefix"),
        pytest.param(
            [Watch(0, ALL[:3], client="one"), Watch(6, ALL[4:], client="one", follows=True)],
            "resumable: the stream before had come to 5",
            id="resumed too late",
        ),
    ],
)
def test_injected_violations_of_requests_are_detected(watches: Sequence[Watch], message: str) -> None:
    result = violations(HISTORY, watches)
    assert any(message in item for item in result), result


@pytest.mark.parametrize(
    ("snapshot", "message"),
    [
        pytest.param(Snapshot(5, {"/a": "3", "/b": "2"}, at_least=5), "", id="equal to the store"),
        pytest.param(Snapshot(9, {"/c": "4", "/d": "5"}, label="x"), "", id="a selector"),
        pytest.param(Snapshot(1, {}), "", id="before everything"),
        pytest.param(Snapshot(5, {"/a": "3"}), "consistent list: at 5", id="missing object"),
        pytest.param(Snapshot(5, {"/a": "1", "/b": "2"}), "consistent list: at 5", id="an older value"),
        pytest.param(Snapshot(6, {"/a": "3", "/b": "2"}), "consistent list: at 6", id="deleted object"),
        pytest.param(Snapshot(3, {"/a": "1", "/b": "2"}, at_least=5), "stale list: 3", id="older than a previous read"),
    ],
)
def test_lists(snapshot: Snapshot, message: str) -> None:
    later = Snapshot(9, {"/a": "3", "/b": "6", "/c": "4", "/d": "5"})
    result = list_violations(HISTORY, [later, snapshot])
    assert [message in item for item in result] == ([True] if message else []), result
