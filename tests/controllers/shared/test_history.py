"""ControllerRevisions: data, equality and truncation.

Mirrors v1.36 ``pkg/controller/daemon/update_test.go`` (TestControlledHistories and the clean-up) and
``pkg/controller/history/controller_history_test.go``.
"""

import msgspec
from tests.tables import cases

from pilothouse.api.apps import ControllerRevision
from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.controllers.shared.history import (
    equal_revision,
    new_revision,
    newest,
    next_revision,
    revisions_to_delete,
    template_patch,
)

LABEL = "controller-revision-hash"


def revision(number: int, hash: str = "") -> ControllerRevision:  # noqa: A002  # the label's own name
    labels = {LABEL: hash} if hash else {}
    return ControllerRevision(metadata=ObjectMeta(name=f"r{number}", labels=labels), revision=number)


def test_the_data_is_a_patch_with_sorted_keys() -> None:
    template = b'{"spec": {"b": 1, "a": "<x>"}, "metadata": {"creationTimestamp": null, "labels": {"app": "web"}}}'
    assert template_patch(template) == (
        b'{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},'
        b'"spec":{"a":"\\u003cx\\u003e","b":1}}}}'
    )


@cases(
    "one, other, same",
    {
        "equal bytes": (b'{"a":1}', b'{"a":1}', True),
        "different notation": (b'{"a":1,"b":2}', b'{ "b": 2, "a": 1 }', True),
        "another value": (b'{"a":1}', b'{"a":2}', False),
        "written before v1.34": (
            b'{"spec":{"template":{"metadata":{"creationTimestamp":null,"labels":{}}}}}',
            b'{"spec":{"template":{"metadata":{"labels":{}}}}}',
            True,
        ),
        "lists have an order": (b'{"a":[1,2]}', b'{"a":[2,1]}', False),
    },
)
def test_equal_revisions(one: bytes, other: bytes, same: bool) -> None:
    assert equal_revision(one, other) is same


@cases(
    "old, limit, live, expected",
    {
        "at the limit": ([revision(1), revision(2)], 2, set(), []),
        "oldest is deleted": ([revision(3), revision(1), revision(2)], 2, set(), ["r1"]),
        "limit 0": ([revision(1), revision(2)], 0, set(), ["r1", "r2"]),
        "revision in use is kept": ([revision(1, "a"), revision(2, "b"), revision(3, "c")], 1, {"a"}, ["r2", "r3"]),
        "all in use: above the limit": ([revision(1, "a"), revision(2, "b")], 0, {"a", "b"}, []),
        "empty hash label": ([revision(1, ""), revision(2)], 1, {""}, ["r1"]),
    },
)
def test_unused_revisions_are_truncated(
    old: list[ControllerRevision], limit: int, live: set[str], expected: list[str]
) -> None:
    assert [item.metadata.name for item in revisions_to_delete(old, limit, frozenset(live), LABEL)] == expected


def test_next_revision() -> None:
    assert next_revision([]) == 1
    assert next_revision([revision(3), revision(7)]) == 8


def test_equal_revision_numbers_are_ordered_by_age() -> None:
    assert newest([revision(2), revision(5), revision(1)]).revision == 5
    one, other = revision(2, "a"), revision(2, "b")
    assert newest([one, other]) is other


def test_new_revision_has_owner_and_labels() -> None:
    owner = OwnerReference(api_version="apps/v1", kind="DaemonSet", name="agent", uid="u", controller=True)
    body = msgspec.json.decode(
        new_revision(
            namespace="default",
            name="agent-x",
            labels={LABEL: "x"},
            annotations={},
            owner=owner,
            data=b'{"a":1}',
            number=3,
        )
    )
    assert body == {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": "agent-x",
            "namespace": "default",
            "labels": {LABEL: "x"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}
            ],
        },
        "data": {"a": 1},
        "revision": 3,
    }
