"""What a kube-apiserver v1.20 answers otherwise than one of the release that we follow, and which release changed it.

``docs/conformance.md`` shows these rows.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.real.fuzz.comparing import ABSENT, Difference
from tests.real.fuzz.servers import Answer, Request


@dataclass(frozen=True)
class Seen:
    """A difference with all that was said around it."""

    difference: Difference
    resource: str
    request: Request
    theirs: Answer
    ours: Answer
    before: Any = None
    """The object as our server had it."""

    @property
    def path(self) -> str:
        return self.difference.path


@dataclass(frozen=True)
class Row:
    """One thing that differs. ``applies`` tells whether a difference is it."""

    id: str
    since: str
    what: str
    applies: Callable[[Seen], bool]
    diverges: bool | Callable[[Seen], bool] = False
    """Whether the two servers hold different objects from then on, which ends the story."""

    def ends(self, seen: Seen) -> bool:
        """Whether what was seen ends the story."""
        return self.diverges if isinstance(self.diverges, bool) else self.diverges(seen)


def _matches(pattern: str, value: object) -> bool:
    return isinstance(value, str) and re.search(pattern, value) is not None


def _cause(value: object) -> str:
    """The text of a cause."""
    return value[1] if isinstance(value, tuple) else ""


def _null_times(seen: Seen) -> bool:
    if seen.request.kind_of_patch == "json" and seen.theirs.accepted and seen.ours.code == 422:
        return "template/metadata/creationTimestamp" in _pointers(seen.request.body)
    return (
        seen.path.endswith(("Timestamp", "Time", "timeAdded", "startedAt", "finishedAt", "time"))
        and seen.difference.theirs is None
        and seen.difference.ours is ABSENT
    )


def _namespace_label(seen: Seen) -> bool:
    theirs, ours = seen.difference.theirs, seen.difference.ours
    if seen.path.endswith("metadata.labels.kubernetes.io/metadata.name"):
        return True
    if seen.resource == "namespaces" and seen.request.kind_of_patch == "json" and seen.theirs.code == 422:
        # There are labels to add to.
        return seen.ours.accepted and "/metadata/labels/" in _pointers(seen.request.body)
    return seen.path.endswith("metadata.labels") and theirs is ABSENT and list(ours) == ["kubernetes.io/metadata.name"]


def _new(*fields: str) -> Callable[[Seen], bool]:
    """These fields are only set by the newer release."""
    return lambda seen: seen.difference.theirs is ABSENT and any(seen.path.endswith("." + name) for name in fields)


def _both(*resources: str, applies: Callable[[Seen], bool]) -> Callable[[Seen], bool]:
    return lambda seen: seen.resource in resources and applies(seen)


def _said(theirs: str, ours: str, where: str = "") -> Callable[[Seen], bool]:
    """Texts, of messages or causes, that match these."""

    def applies(seen: Seen) -> bool:
        values = seen.difference.theirs, seen.difference.ours
        texts = [_cause(value) if isinstance(value, tuple) else value for value in values]
        return re.search(where, seen.path) is not None and _matches(theirs, texts[0]) and _matches(ours, texts[1])

    return applies


def _generations(seen: Seen) -> bool:
    if seen.request.method == "POST" and seen.path == "body.metadata.generation":
        return bool(seen.difference.ours == 1)  # before, what the client said was kept
    if seen.path == "body.items.*.metadata.generation" and isinstance(seen.difference.theirs, int):
        return bool(seen.difference.ours == 1)
    return _new("metadata.generation")(seen)


def _families(seen: Seen) -> bool:
    if seen.theirs.code == 422 and seen.ours.accepted and "more than 1 protocol" in str(seen.theirs.body):
        return True
    gated = "ipFamil|allocateLoadBalancerNodePorts"
    if re.search(gated, seen.path):
        return True
    return seen.theirs.code != seen.ours.code == 422 and re.search(gated, str(seen.ours.body)) is not None


def _service_registry(seen: Seen) -> bool:
    difference, method = seen.difference, seen.request.method
    if method == "DELETE" and not seen.request.name:
        return seen.theirs.code == 405  # it has deletecollection
    if method == "DELETE" and seen.theirs.accepted and seen.ours.accepted:
        return (seen.theirs.body["kind"], seen.ours.body["kind"]) == ("Status", "Service")
    if ("dryRun", "All") in seen.request.query and re.search("clusterIP|nodePort|NodePort", seen.path) is not None:
        # Ports that were only tried were outside of the range.
        return difference.theirs is ABSENT if method == "POST" else isinstance(difference.theirs, int)
    told = str(seen.theirs.body)
    return seen.theirs.code == 422 and seen.ours.code != 422 and re.search("clusterIP|ersion", told) is not None


def _drivers(seen: Seen) -> bool:
    if seen.theirs.code == 422 and seen.ours.accepted:
        return "spec: Invalid value" in str(seen.theirs.body)
    return re.search("storageCapacity|requiresRepublish|tokenRequests|generation", seen.path) is not None


def _attachable(seen: Seen) -> bool:
    told = str(seen.theirs.body)
    return seen.resource == "csinodes.storage.k8s.io" and seen.ours.accepted and "CSINodeDriver" in told


def _stateful_sets(seen: Seen) -> bool:
    if seen.theirs.code in (200, 201, 409) and seen.ours.code == 422 and "spec.template.spec" in str(seen.ours.body):
        return True
    if seen.theirs.accepted and seen.ours.code == 422:
        return seen.request.method == "POST" and "metadata.name: Invalid value" in str(seen.ours.body)
    if seen.theirs.code == 422 and seen.ours.accepted:
        return "updates to statefulset spec" in str(seen.theirs.body)
    return seen.path.endswith(("updateStrategy.rollingUpdate", "metadata.generation"))


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
    return _said(theirs, "cannot unmarshal|unable to parse|parsing time|json:|quantities|base64", "message")(seen)


def _pods(seen: Seen) -> bool:
    if seen.ours.code == 422 and seen.theirs.code != 422:
        told = re.findall(r"(\S+): (?:Invalid|Required|Forbidden)", str(seen.ours.body["message"]))
        new = r"topologySpreadConstraints\[\d+\]\.labelSelector\.|status\.qosClass$"
        return bool(told) and all(re.search(new, each) for each in told)
    if seen.path.endswith(".hostPort") and ".template." in f".{seen.path}":
        return seen.difference.ours is ABSENT
    if seen.resource != "pods":
        return False
    return _new("status.qosClass")(seen) or seen.path.endswith("status.nominatedNodeName")


def _negative_grace(seen: Seen) -> bool:
    if not seen.path.endswith(("deletionGracePeriodSeconds", "deletionTimestamp")):
        return False
    before, after = (answer.body["metadata"].get("deletionGracePeriodSeconds") for answer in (seen.theirs, seen.ours))
    return isinstance(before, int) and before < 0 and after == 1


def _namespace_first(seen: Seen) -> bool:
    if seen.resource == "localsubjectaccessreviews.authorization.k8s.io":
        return seen.theirs.code in (400, 422) and seen.ours.code in (201, 422)
    told = str(seen.ours.body)
    return seen.request.method == "POST" and seen.theirs.code == 403 and "namespace sent on the request" in told


def _claims(seen: Seen) -> bool:
    if seen.path.endswith("spec.dataSource"):
        return seen.difference.theirs is ABSENT
    told = str(seen.theirs.body)
    return seen.theirs.code == 422 and seen.ours.accepted and "StorageClassName: nil" in told


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


def _has_null_item(body: object) -> bool:
    if isinstance(body, list):
        return any(item is None or _has_null_item(item) for item in body)
    return isinstance(body, dict) and any(_has_null_item(value) for value in body.values())


def _applied(seen: Seen) -> bool:
    refused = "failed to create typed patch object|failed to convert new object"
    theirs = seen.theirs.body.get("message", "") if seen.theirs.code == 500 else ""
    if seen.request.kind_of_patch == "apply" and _matches("duplicate entries for key", theirs):
        return True
    if seen.theirs.code == 409 and "before-first-apply" in str(seen.theirs.body):
        return True  # what is there twice lost its object all of its owners
    if seen.request.kind_of_patch == "apply" and seen.ours.code != 500:
        return _matches("expected string, got &value.valueUnstructured{Value:[0-9]|omits key field", theirs)
    return _said(refused, refused, "message")(seen)


def _jobs(seen: Seen) -> bool:
    if _new("spec.ttlSecondsAfterFinished", "spec.manualSelector")(seen):
        return True
    if re.search("controller-uid|batch.kubernetes.io/", f"{seen.path}{seen.difference.ours}") is not None:
        return True
    if seen.request.kind_of_patch == "json" and "/controller-uid" in _pointers(seen.request.body):
        return seen.theirs.code == seen.ours.code == 422
    return seen.theirs.code == 422 and seen.ours.accepted and "spec.selector: " in str(seen.theirs.body)


def _pointers(patch: object) -> str:
    """Where the operations of a JSON patch are made."""
    operations = patch if isinstance(patch, list) else []
    return " ".join(f"{each.get('path')} {each.get('from')}" for each in operations if isinstance(each, dict))


def _owners_of_writes(seen: Seen) -> bool:
    if seen.path == "written":
        if seen.difference.theirs or seen.request.path.endswith(("/status", "/approval", "/finalize")):
            return True
        manager = dict(seen.request.query).get("fieldManager") or "fuzz"
        objects = [each for each in (seen.before, seen.ours.body) if each]
        entries = [entry for each in objects for entry in each["metadata"].get("managedFields", ())]
        return any(each["manager"] == manager and each.get("subresource") for each in entries)
    if seen.theirs.code == 409 and seen.ours.code != 409:
        return _matches("has been modified|Apply failed", str(seen.theirs.body["message"]))
    found = re.fullmatch(r"body\.metadata\.(?:(?:labels|annotations)\.(.*)|generateName)", seen.path)
    if found is None or seen.difference.theirs is not ABSENT:
        return False
    name = found[1] or "generateName"
    applied = [each for each in seen.ours.body["metadata"].get("managedFields", ()) if each["operation"] == "Apply"]
    whole, parts = (
        {each["manager"] for each in applied if bool(each.get("subresource")) is part} for part in (False, True)
    )
    if seen.request.kind_of_patch == "apply" and seen.request.path.endswith("/status"):
        parts = whole
    return any(each["manager"] in whole & parts and f"'f:{name}'" in str(each["fieldsV1"]) for each in applied)


def _cached_lists(seen: Seen) -> bool:
    if seen.path == "body.items order":
        return any(name == "resourceVersion" for name, _ in seen.request.query)
    return ("resourceVersion", "0") in seen.request.query and re.search(
        "items$|continue|remaining", seen.path
    ) is not None


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
        updates = [
            each for each in seen.theirs.body["metadata"].get("managedFields", ()) if each["operation"] != "Apply"
        ]
        owned = re.findall(r"'f:([^']*)'", str([each["fieldsV1"] for each in updates]))
        return seen.difference.ours is ABSENT and any(seen.path.endswith(f".{name}") for name in owned)
    if seen.resource == "ingresses.networking.k8s.io" and seen.ours.accepted:
        return "cannot set both port name & port number" in str(seen.theirs.body)
    if seen.resource == "ingresses.networking.k8s.io" and seen.ours.code == 409:
        return ".service.port" in str(seen.ours.body)
    told = str(seen.ours.body)
    references = r"Ref|regarding|related|involvedObject|elector|\.secrets\["
    return seen.ours.code in (409, 422) and re.search(references, told) is not None


_SECCOMP = re.compile(r"(container\.)?seccomp\.security\.alpha\.kubernetes\.io/")


def _seccomp(seen: Seen) -> bool:
    _before, found, name = seen.path.partition("metadata.annotations")
    if not found or seen.difference.ours is not ABSENT:
        return False
    theirs = seen.difference.theirs
    names = list(theirs) if isinstance(theirs, dict) else [name.removeprefix(".")]
    return all(_SECCOMP.match(each) for each in names)


ROWS: tuple[Row, ...] = (
    Row("namespace label", "v1.21", "namespaces carry the label `kubernetes.io/metadata.name`", _namespace_label),
    Row(
        "hangs up",
        "v1.21",
        "a request that made a handler of v1.20 panic, and end its connection, gets an answer",
        lambda seen: not seen.theirs.code,
    ),
    Row("null times", "v1.34", "times that are not set are left out; before they were `null`", _null_times),
    Row(
        "generations",
        "v1.23-v1.34",
        "jobs (v1.23), pod templates (v1.28) and pods (v1.34) have a `metadata.generation`",
        _both("jobs.batch", "podtemplates", "pods", applies=_generations),
    ),
    Row(
        "families of services",
        "v1.21",
        "services have IP families, and (v1.24) `allocateLoadBalancerNodePorts` and load balancers of several "
        "protocols, which took feature gates before",
        _both("services", applies=_families),
    ),
    Row(
        "jobs",
        "v1.21-v1.31",
        "`ttlSecondsAfterFinished` is there without a feature gate (v1.21), what the server says of a job in labels "
        "is there under `batch.kubernetes.io/` too (v1.27), `manualSelector` is false where it is not given (v1.31)",
        _both("jobs.batch", applies=_jobs),
    ),
    Row(
        "bootstrap roles",
        "v1.28",
        "the roles that everybody has grant more: `selfsubjectreviews`",
        _both("selfsubjectrulesreviews.authorization.k8s.io", applies=lambda seen: seen.path.startswith("body.status")),
    ),
    Row(
        "group in errors",
        "v1.22",
        "errors about ingresses and network policies name their own group; before it was `extensions`",
        lambda seen: (
            seen.difference.theirs == "extensions"
            or _said(r"Ingress\.extensions|NetworkPolicy\.extensions", r"\.networking", "message")(seen)
        ),
    ),
    Row(
        "decoding",
        "v1.23",
        "what is wrong with the types in a body or patch is said first, in the words of Go's own decoder",
        _decoding,
    ),
    Row(
        "not acceptable",
        "v1.24",
        "406 lists what could be had",
        _said("^406: Not Acceptable$", "^406: Not Acceptable\n\nAvailable", "message"),
    ),
    Row(
        "namespace of a patched object",
        "v1.22",
        "a patch that moves an object to another namespace is refused in other words; outside of namespaces it does "
        "nothing",
        lambda seen: (
            _matches("does not match the namespace on the request", str(seen.theirs.body))
            and (seen.ours.code in (200, 422) or _matches("sent on the request|ParseUint", str(seen.ours.body)))
        ),
    ),
    Row(
        "directives in what is new",
        "v1.29",
        "`$patch` in a part of a strategic merge patch that the object does not have yet is no value of its own",
        lambda seen: seen.request.kind_of_patch == "strategic" and "$" in str(seen.request.body),
        diverges=True,
    ),
    Row(
        "selector texts",
        "v1.22",
        "unreadable selectors, and fields that can't be selected by, are told of in other words",
        _said("unable to parse requirement|field label|field selector", "unable to parse requirement|field label"),
    ),
    Row(
        "registry of services",
        "v1.23",
        "services are stored like everything else: conflicts come before validation, addresses that a PUT leaves out "
        "are kept, DELETE answers the service, a dry run shows an address, and there is deletecollection",
        _both("services", applies=_service_registry),
    ),
    Row(
        "unreadable revisions of lists",
        "v1.31",
        "a list with an unreadable `resourceVersion` is a bad request also where the cache answers",
        lambda seen: seen.request.method in ("GET", "DELETE") and seen.theirs.code == 500 and seen.ours.code == 400,
    ),
    Row(
        "generated names",
        "v1.30",
        "a name is generated before a kind has its own way, and one that is taken is a conflict",
        lambda seen: (
            (seen.theirs.code == 500 and "generate" in str(seen.ours.body))
            or (seen.resource == "limitranges" and _matches("generateName", str(seen.request.body)))
            or _said("already exists", "object is being deleted", "message")(seen)
        ),
        diverges=True,
    ),
    Row(
        "empty lists",
        "v1.33",
        "a list of nothing has `items: []` also where a selector left nothing; before it was `null`",
        lambda seen: seen.path == "body.items" and seen.difference.theirs is None and seen.difference.ours == [],
    ),
    Row(
        "events of the new group",
        "v1.21",
        "what an event of events.k8s.io is about does not change",
        _both(
            "events.events.k8s.io",
            applies=lambda seen: seen.theirs.accepted and "field is immutable" in str(seen.ours.body),
        ),
    ),
    Row(
        "targets of autoscalers",
        "v1.36",
        "the kind that is scaled has a group in its `apiVersion`",
        _both(
            "horizontalpodautoscalers.autoscaling",
            applies=lambda seen: seen.theirs.code != 422 and "scaleTargetRef.apiVersion" in str(seen.ours.body),
        ),
    ),
    Row(
        "CSI drivers",
        "v1.22",
        "`storageCapacity` and `requiresRepublish` are there without a feature gate, and (v1.30) the spec may change; "
        "so may (v1.36) how much a driver of a CSINode can attach",
        lambda seen: _both("csidrivers.storage.k8s.io", applies=_drivers)(seen) or _attachable(seen),
        diverges=True,
    ),
    Row(
        "lists from the cache",
        "v1.31-v1.34",
        "lists from the cache are ordered by name (v1.31), and `limit` counts also for those at resource version 0 "
        "(v1.34)",
        _cached_lists,
    ),
    Row(
        "metadata of token requests",
        "v1.27",
        "the answer to a token request names the account",
        lambda seen: seen.request.path.endswith("/token") and seen.path.startswith("body.metadata."),
    ),
    Row(
        "traffic from outside",
        "v1.27",
        "`externalTrafficPolicy` is defaulted also for services with `externalIPs`",
        _both("services", applies=_new("spec.externalTrafficPolicy")),
    ),
    Row(
        "namespace of what is created",
        "v1.22",
        "an object of a create has the namespace of its address before it is admitted and validated",
        _namespace_first,
    ),
    Row(
        "types of applied objects",
        "v1.26",
        "an applied object that its type does not allow is told of with its name; quantities may be numbers, and keys "
        "have their defaults; (v1.29) an object that has a key twice may be applied to, and keeps its owners",
        _applied,
    ),
    Row(
        "order of what is merged",
        "v1.27",
        "applied items come in the order in which they are applied",
        _reordered,
        diverges=True,
    ),
    Row(
        "claims",
        "v1.24-v1.26",
        "the data of a claim may come from any kind of source (v1.24), and a claim without a storage class may be "
        "given one later (v1.26)",
        _both("persistentvolumeclaims", applies=_claims),
        diverges=True,
    ),
    Row(
        "nulls in lists",
        "v1.22",
        "a merge patch keeps the nulls of a list, which it dropped before",
        lambda seen: (
            seen.request.kind_of_patch == "merge"
            and (seen.theirs.accepted or seen.ours.accepted)
            and _has_null_item(seen.request.body)
        ),
        diverges=True,
    ),
    Row(
        "owned nulls",
        "v1.21",
        "what is applied as null is owned, also where it is a struct, a list or a map, and so is what is applied "
        "empty; a struct that nobody owns any more goes with what was in it",
        _owned_nothing,
        diverges=True,
    ),
    Row(
        "owned whole",
        "v1.22-v1.31",
        "references, owner references and selectors (v1.22), and ports of an Ingress (v1.31), have one owner for all "
        "of their fields; and who owns a map whose members others have taken does not get them back (v1.22)",
        _owned_whole,
        diverges=True,
    ),
    Row(
        "writes that change nothing",
        "v1.22",
        "a write that changes nothing but who wrote when is not stored; managers of subresources are told apart: a "
        "status write does not own what it leaves, and keeps what its manager does not apply to the whole",
        _owners_of_writes,
        diverges=lambda seen: seen.path.startswith("body.metadata."),
    ),
    Row(
        "specs of StatefulSets",
        "v1.27-v1.34",
        "the name of a StatefulSet has no dots (v1.27), more of it may change (`revisionHistoryLimit`, v1.33), a "
        "`partition` is always filled in, and its pod template is validated like all others (v1.34)",
        _both("statefulsets.apps", applies=_stateful_sets),
        diverges=True,
    ),
    Row(
        "delete options of collections",
        "v1.22",
        "`DeleteOptions` of `meta.k8s.io/v1` are understood also for collections",
        lambda seen: seen.request.method == "DELETE" and 'no kind "DeleteOptions"' in str(seen.theirs.body),
    ),
    Row(
        "counts of metadata-only lists",
        "v1.21",
        "lists of metadata alone say how many items remain",
        lambda seen: "PartialObject" in seen.request.accept and seen.path.endswith("remainingItemCount"),
    ),
    Row(
        "self links",
        "v1.24",
        "a `selfLink` that a client sends is dropped",
        lambda seen: seen.path.endswith("metadata.selfLink") and seen.difference.ours is ABSENT,
    ),
    Row(
        "seccomp annotations",
        "v1.25",
        "seccomp profiles of pods and containers are not written down in annotations too",
        _both("pods", applies=_seccomp),
    ),
    Row(
        "grace periods",
        "v1.22",
        "a grace period of less than nothing is one second",
        _both("pods", applies=_negative_grace),
        diverges=True,
    ),
    Row(
        "pods",
        "v1.27-v1.35",
        "selectors of topology spread constraints are judged, and a write of a pod's status without `qosClass` keeps "
        "it, which no other may change (v1.27); ports of templates that use the host's network get no `hostPort` "
        "(v1.28); binding clears `nominatedNodeName` (v1.35)",
        _pods,
    ),
    Row(
        "revisions of controllers",
        "v1.21",
        "strategic merge patches of ControllerRevisions are granted; before, their data seemed to change",
        _both("controllerrevisions.apps", applies=lambda seen: seen.theirs.code == 422 and seen.ours.accepted),
    ),
    Row(
        "field manager texts",
        "v1.32",
        "`fieldManager` that is too long or not printable is refused in other words",
        _said("must have at most|invalid character", "may not be more than|printable", "fieldManager"),
    ),
)


def table() -> str:
    """The rows as the page shows them."""
    lines = ["| since | what is otherwise |", "|---|---|"]
    lines += [f"| {row.since} | {row.what} |" for row in sorted(ROWS, key=release_of)]
    return "\n".join(lines) + "\n"


def release_of(row: Row) -> tuple[int, str]:
    """What rows are ordered by."""
    found = re.search(r"v1\.(\d+)", row.since)
    assert found is not None, row.since
    return int(found[1]), row.what


def explain(seen: Seen) -> Row | None:
    """The row that a difference belongs to, or None."""
    return next((row for row in ROWS if row.applies(seen)), None)
