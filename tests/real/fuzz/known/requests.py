"""What a request means, or is answered, otherwise, whatever its kind."""

import re

from tests.real.fuzz.comparing import ABSENT
from tests.real.fuzz.known.rows import Row, Seen, anyone, cause, matches, our_causes, pointers, said


def _null_times(seen: Seen) -> bool:
    if seen.request.kind_of_patch == "json" and seen.theirs.accepted and seen.ours.code == 422:
        return "template/metadata/creationTimestamp" in pointers(seen.request.body)
    return (
        seen.path.endswith(("Timestamp", "Time", "timeAdded", "startedAt", "finishedAt", "time"))
        and seen.difference.theirs is None
        and seen.difference.ours is ABSENT
    )


def _decoding(seen: Seen) -> bool:
    patch, ours = seen.request.kind_of_patch, str(seen.ours.body)
    if patch and ("error decoding patch" in ours or "in struct RawExtension" in str(seen.theirs.body)):
        return True
    if (
        patch
        and re.search("cannot unmarshal number|unrecognized type: int", ours)
        and (seen.theirs.code != 422 or seen.path.startswith("details"))
    ):
        return True
    theirs = "json parse error|cannot be handled as a|v1\\.|ReadInt|readObject|decode"
    return said(theirs, "cannot unmarshal|unable to parse|parsing time|json:|quantities|base64", "message")(seen)


def _namespace_of_patched(seen: Seen) -> bool:
    return matches("does not match the namespace on the request", str(seen.theirs.body)) and (
        seen.ours.code in (200, 422) or matches("sent on the request|ParseUint", str(seen.ours.body))
    )


def _namespace_first(seen: Seen) -> bool:
    if seen.resource == "localsubjectaccessreviews.authorization.k8s.io":
        return seen.theirs.code in (400, 422) and seen.ours.code in (201, 422)
    told = str(seen.ours.body)
    return seen.request.method == "POST" and seen.theirs.code == 403 and "namespace sent on the request" in told


def _lists(seen: Seen) -> bool:
    query = seen.request.query
    if seen.path == "body.items order":
        return any(name == "resourceVersion" for name, _ in query)
    if ("resourceVersion", "0") in query and re.search("items$|continue|remaining", seen.path) is not None:
        return True
    if "PartialObject" in seen.request.accept and seen.path.endswith("remainingItemCount"):
        return True
    if seen.path == "body.items" and seen.difference.theirs is None:
        return bool(seen.difference.ours == [])
    return seen.request.method in ("GET", "DELETE") and seen.theirs.code == 500 and seen.ours.code == 400


def _generated_names(seen: Seen) -> bool:
    if seen.theirs.code == 500 and "generate" in str(seen.ours.body):
        return True
    if seen.resource == "limitranges" and matches("generateName", str(seen.request.body)):
        return True
    return said("already exists", "object is being deleted", "message")(seen)


def _has_null_item(body: object) -> bool:
    if isinstance(body, list):
        return any(item is None or _has_null_item(item) for item in body)
    return isinstance(body, dict) and any(_has_null_item(value) for value in body.values())


def _nulls_in_lists(seen: Seen) -> bool:
    granted = seen.theirs.accepted or seen.ours.accepted
    return seen.request.kind_of_patch == "merge" and granted and _has_null_item(seen.request.body)


def _deletions(seen: Seen) -> bool:
    if seen.resource == "pods" and seen.request.method == "POST" and seen.theirs.accepted:
        return matches("^object is being deleted", seen.ours.body.get("message"))
    return seen.request.method == "DELETE" and 'no kind "DeleteOptions"' in str(seen.theirs.body)


REQUESTS: tuple[Row, ...] = (
    Row(
        "hanging up",
        {"v1.21": "a request that made a handler of v1.20 panic, and end its connection, gets an answer"},
        applies=lambda seen: not seen.theirs.code,
    ),
    Row(
        "times",
        {"v1.34": "those that are not set are left out; before they were `null`"},
        applies=_null_times,
    ),
    Row(
        "wrong types",
        {"v1.23": "what is wrong with the types in a body or patch is said first, in the words of Go's own decoder"},
        applies=_decoding,
        causes=lambda seen: cause("patch")(seen) or {told["field"] for told in our_causes(seen)} == {"patch"},
    ),
    Row(
        "namespaces of objects in requests",
        {
            "v1.22": "what is created has the namespace of its address before it is admitted and validated; a patch "
            "that moves an object to another is refused in other words, and outside of namespaces does nothing"
        },
        applies=anyone(_namespace_of_patched, _namespace_first),
    ),
    Row(
        "directives in what is new",
        {
            "v1.29": "`$patch` in a part of a strategic merge patch that the object does not have yet is no value of "
            "its own"
        },
        applies=lambda seen: seen.request.kind_of_patch == "strategic" and "$" in str(seen.request.body),
        diverges=True,
    ),
    Row(
        "nulls in lists",
        {"v1.22": "a merge patch keeps the nulls of a list, which it dropped before"},
        applies=_nulls_in_lists,
        causes=lambda seen: seen.request.kind_of_patch == "merge" and _has_null_item(seen.request.body),
        diverges=True,
    ),
    Row(
        "lists",
        {
            "v1.21": "those of metadata alone say how many items remain",
            "v1.31": "those from the cache are ordered by name; an unreadable `resourceVersion` is a bad request also "
            "where the cache answers",
            "v1.33": "a list of nothing has `items: []` also where a selector left nothing; before it was `null`",
            "v1.34": "`limit` counts also for those at resource version 0",
        },
        applies=_lists,
    ),
    Row(
        "options of deletions",
        {
            "v1.21": "each pod of a collection has its own grace period; before, that of one which went at once became "
            "that of the next",
            "v1.22": "`DeleteOptions` of `meta.k8s.io/v1` are understood also for collections",
        },
        applies=_deletions,
    ),
    Row(
        "generated names",
        {"v1.30": "they are generated before a kind has its own way, and one that is taken is a conflict"},
        applies=_generated_names,
        diverges=True,
    ),
    Row(
        "self links",
        {"v1.24": "a `selfLink` that a client sends is dropped"},
        applies=lambda seen: seen.path.endswith("metadata.selfLink") and seen.difference.ours is ABSENT,
    ),
)
