"""Who owns what, what an apply does to it, and what owner references may say."""

import re
from typing import Any

from tests.real.fuzz.comparing import ABSENT
from tests.real.fuzz.known.rows import Row, Seen, anyone, cause, matches, our_causes, said


def _reordered(seen: Seen) -> bool:
    if seen.request.kind_of_patch != "apply" or ".*" not in seen.path:
        return False
    if re.search(r"finalizers\.\*$|ownerReferences\.\*\.", seen.path) is not None:
        return True
    lists: list[Any] = [seen.theirs.body, seen.ours.body]
    for name in seen.path.partition(".*")[0].split(".")[1:]:
        lists = [each.get(name, {}) if isinstance(each, dict) else {} for each in lists]
    names = [sorted(str(item.get("name")) for item in each if isinstance(item, dict)) for each in lists]
    return names[0] == names[1] and [each.get("name") for each in lists[0]] != [each.get("name") for each in lists[1]]


def _has_nothing(body: object) -> bool:
    if isinstance(body, list):
        return any(_has_nothing(item) for item in body)
    if isinstance(body, dict):
        return not body or any(_has_nothing(value) for value in body.values())
    return body is None


def _applied(seen: Seen) -> bool:
    refused = "failed to create typed patch object|failed to convert new object"
    theirs = seen.theirs.body.get("message", "") if seen.theirs.code == 500 else ""
    if seen.request.kind_of_patch == "apply" and matches("duplicate entries for key", theirs):
        return True
    if seen.theirs.code == 409 and "before-first-apply" in str(seen.theirs.body):
        return True  # what is there twice lost its object all of its owners
    if seen.request.kind_of_patch == "apply" and seen.ours.code != 500:
        return matches("expected string, got &value.valueUnstructured{Value:[0-9]|omits key field", theirs)
    return said(refused, refused, "message")(seen)


def _owners(obj: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = obj["metadata"].get("managedFields", []) if obj else []
    return found


def _only_time_is_new(seen: Seen) -> bool:
    before, after = (
        [{name: value for name, value in entry.items() if name != "time"} for entry in _owners(obj)]
        for obj in (seen.before, seen.ours.body)
    )
    return bool(seen.difference.ours) and before == after


def _owners_of_writes(seen: Seen) -> bool:
    if seen.path == "written":
        if seen.difference.theirs or seen.request.path.endswith(("/status", "/approval", "/finalize")):
            return True
        manager = dict(seen.request.query).get("fieldManager") or "fuzz"
        entries = [entry for obj in (seen.before, seen.ours.body) for entry in _owners(obj)]
        return _only_time_is_new(seen) or any(
            each["manager"] == manager and each.get("subresource") for each in entries
        )
    if seen.theirs.code == 409 and seen.ours.code != 409:
        return matches("has been modified|Apply failed", str(seen.theirs.body["message"]))
    if seen.theirs.accepted and matches("^Apply failed", seen.ours.body.get("message")):
        # Owned still, by who has lost it to a status write on v1.20.
        return any(entry.get("subresource") for entry in _owners(seen.before))
    found = re.fullmatch(r"body\.metadata\.(?:(?:labels|annotations)\.(.*)|generateName)", seen.path)
    if found is None or seen.difference.theirs is not ABSENT:
        return False
    name = found[1] or "generateName"
    applied = [each for each in _owners(seen.ours.body) if each["operation"] == "Apply"]
    whole, parts = (
        {each["manager"] for each in applied if bool(each.get("subresource")) is part} for part in (False, True)
    )
    if seen.request.kind_of_patch == "apply" and seen.request.path.endswith("/status"):
        parts = whole
    return any(each["manager"] in whole & parts and f"'f:{name}'" in str(each["fieldsV1"]) for each in applied)


def _is_hollow(value: object) -> bool:
    return isinstance(value, dict) and all(_is_hollow(inner) for inner in value.values())


def _owned_nothing(seen: Seen) -> bool:
    if seen.request.kind_of_patch != "apply":
        return False
    if seen.difference.ours is ABSENT and seen.path.startswith("body."):
        return _is_hollow(seen.difference.theirs)
    return seen.path == "written" and bool(seen.difference.ours) and _has_nothing(seen.request.body)


def _owned_whole(seen: Seen) -> bool:
    if seen.request.kind_of_patch != "apply":
        return False
    if seen.theirs.accepted and seen.ours.accepted:
        # Not taken away, because somebody who owns the map around it owns it again.
        updates = [each for each in _owners(seen.theirs.body) if each["operation"] != "Apply"]
        owned = re.findall(r"'f:([^']*)'", str([each["fieldsV1"] for each in updates]))
        return seen.difference.ours is ABSENT and any(seen.path.endswith(f".{name}") for name in owned)
    if seen.resource == "ingresses.networking.k8s.io" and seen.ours.accepted:
        return "cannot set both port name & port number" in str(seen.theirs.body)
    if seen.resource == "ingresses.networking.k8s.io" and seen.ours.code == 409:
        return ".service.port" in str(seen.ours.body)
    told = str(seen.ours.body)
    references = r"Ref|regarding|related|involvedObject|elector|\.secrets\["
    return seen.ours.code in (409, 422) and re.search(references, told) is not None


def _named_once(seen: Seen) -> bool:
    if not cause(r"metadata\.ownerReferences\..*", "must not be empty")(seen):
        return False
    return seen.path.removeprefix("cause ") in {told["field"] for told in our_causes(seen)}


OWNERSHIP: tuple[Row, ...] = (
    Row(
        "types of applied objects",
        {
            "v1.26": "one that its type does not allow is told of with its name; quantities may be numbers, and keys "
            "have their defaults",
            "v1.29": "an object that has a key twice may be applied to, and keeps its owners",
        },
        applies=_applied,
    ),
    Row(
        "order of what is merged",
        {"v1.27": "applied items come in the order in which they are applied"},
        applies=_reordered,
        diverges=True,
    ),
    Row(
        "owned nulls",
        {
            "v1.21": "what is applied as null is owned, also where it is a struct, a list or a map, and so is what is "
            "applied empty; a struct that nobody owns any more goes with what was in it"
        },
        applies=_owned_nothing,
        diverges=True,
    ),
    Row(
        "owned whole",
        {
            "v1.22": "references, owner references and selectors have one owner for all of their fields, which a "
            "conflict names, and it names subresources; who owns a map whose members others have taken does not get "
            "them back",
            "v1.29": "each conflict has its own path",
            "v1.31": "ports of an Ingress have one owner, too",
        },
        applies=_owned_whole,
        causes=lambda seen: "FieldManagerConflict" in f"{seen.difference.theirs} {seen.difference.ours}",
        diverges=True,
    ),
    Row(
        "writes that change nothing",
        {
            "v1.22": "a write that changes nothing but who wrote when is not stored; managers of subresources are told "
            "apart: a status write does not own what it leaves, nor take it from others, and keeps what its manager "
            "does not apply to the whole",
            "v1.25": "the `time` of an owner is that of a change of a value, too, so that one which the kind undoes "
            "is stored",
        },
        applies=_owners_of_writes,
        diverges=lambda seen: seen.path.startswith("body.metadata."),
    ),
    Row(
        "owner references",
        {
            "v1.26": "of two that control, the kinds are told, too",
            "v1.34": "what is missing in one is not named twice",
        },
        causes=anyone(_named_once, cause(r"metadata\.ownerReferences", "Only one reference can")),
    ),
)
