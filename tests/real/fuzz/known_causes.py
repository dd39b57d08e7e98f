"""Why a kube-apiserver v1.20 names other fields of a refused object than one of the release that we follow, or says it
otherwise. Where it is, code and reason are the same.

``docs/conformance.md`` shows these rows, below those of ``known``. What no row explains is counted.
"""

import re
from collections.abc import Callable

from tests.real.fuzz.comparing import ABSENT
from tests.real.fuzz.known import Row, Seen, release_of


def _cause(seen: Seen, field: str, theirs: str = "", ours: str = "") -> bool:
    """Whether it is a cause about such a field, with such texts; "" is any, absent included."""
    if re.fullmatch(f"cause ({field})", seen.path) is None:
        return False
    return all(
        not wanted or (value is not ABSENT and re.search(wanted, str(value)) is not None)
        for wanted, value in ((theirs, seen.difference.theirs), (ours, seen.difference.ours))
    )


def _of(field: str, theirs: str = "", ours: str = "", *, resources: str = ".*") -> Callable[[Seen], bool]:
    return lambda seen: re.fullmatch(resources, seen.resource) is not None and _cause(seen, field, theirs, ours)


def _any(*applies: Callable[[Seen], bool]) -> Callable[[Seen], bool]:
    return lambda seen: any(one(seen) for one in applies)


def _looks(seen: Seen) -> bool:
    """StatefulSets and quotas: causes that both have, one time less."""
    if seen.resource not in ("statefulsets.apps", "resourcequotas") or seen.difference.theirs is ABSENT:
        return False
    field, reason = seen.path.removeprefix("cause "), seen.difference.theirs[0]
    causes = (seen.ours.body.get("details") or {}).get("causes") or ()
    return any((cause["field"], cause["reason"]) == (field, reason) for cause in causes)


def _fields_of(seen: Seen) -> set[str]:
    """What ours has causes about."""
    return {cause["field"] for cause in (seen.ours.body.get("details") or {}).get("causes") or ()}


def _owner_references(seen: Seen) -> bool:
    if not _cause(seen, r"metadata\.ownerReferences\..*", "must not be empty"):
        return False
    return seen.path.removeprefix("cause ") in _fields_of(seen)


CAUSES: tuple[Row, ...] = (
    Row(
        "types in patches",
        "v1.23",
        "what is wrong with the types in a patch is said in the words of Go's decoder",
        lambda seen: _cause(seen, "patch") or _fields_of(seen) == {"patch"},
    ),
    Row(
        "differences",
        "v1.34",
        "what would change in a pod, a claim or the source of a volume is shown as JSON; more of it may change",
        _any(
            _of("spec", "may not change fields|immutable after creation", resources="pods|persistentvolumeclaims"),
            _of("spec.persistentvolumesource"),
        ),
    ),
    Row(
        "what stays in a StatefulSet",
        "v1.33",
        "more of a StatefulSet may change, which the error lists",
        _any(
            _of("spec", "updates to statefulset spec"),
            _of(r"spec\.revisionHistoryLimit", resources="statefulsets.apps"),
        ),
    ),
    Row(
        "looks",
        "v1.23",
        "updates of StatefulSets and quotas are judged once, so that each cause is listed less often",
        _looks,
    ),
    Row(
        "templates of StatefulSets",
        "v1.34",
        "the pod template of a StatefulSet is validated like all others",
        lambda seen: seen.resource == "statefulsets.apps" and seen.path.startswith("cause spec.template.spec."),
    ),
    Row(
        "services",
        "v1.23",
        "what is wrong with a service is found in one place, with other words for addresses of two families",
        lambda seen: seen.resource == "services" and seen.path != "cause patch",
    ),
    Row(
        "nodes",
        "v1.24",
        "of a node's spec the field is named that may not change, not all of it",
        _of(r"\[\]|spec.externalID", resources="nodes"),
    ),
    Row(
        "CSI drivers",
        "v1.22",
        "of a CSIDriver two fields may not change, before it was the whole spec",
        _of(r"spec(\..*)?", resources="csidrivers.storage.k8s.io"),
    ),
    Row(
        "CSI nodes",
        "v1.33",
        "a driver of a CSINode that may not change is called `spec.drivers`, and how much it can attach (v1.36) may",
        _of(r"CSINodeDriver|spec\.drivers", resources="csinodes.storage.k8s.io"),
    ),
    Row(
        "autoscalers",
        "v1.36",
        "an autoscaler's `maxReplicas` of zero is a missing value, and the kind that it scales has a group",
        _of(r"spec\.maxReplicas|spec\.scaleTargetRef\.apiVersion", resources="horizontalpodautoscalers.autoscaling"),
    ),
    Row(
        "lengths",
        "v1.35",
        "labels and keys have lengths in bytes, not characters",
        _of(".*", "must be no more than 63 characters", "must be no more than 63 bytes"),
    ),
    Row(
        "too long",
        "v1.32",
        "texts may not be longer than a number of bytes, before they had to have at most so many",
        _of(".*", "must have at most", "may not be more than"),
    ),
    Row(
        "owner references",
        "v1.26-v1.34",
        "of two owner references that control the kinds are told, too (v1.26); what is missing in one is not named "
        "twice (v1.34)",
        _any(_owner_references, _of(r"metadata\.ownerReferences", "Only one reference can")),
    ),
    Row(
        "names of ports",
        "v1.25",
        "the name of a port has a letter, before it said that a number would do, too",
        _of(".*", "at least one letter or number", "at least one letter"),
    ),
    Row(
        "addresses of endpoints",
        "v1.33",
        "what is no address of an endpoint is told of once",
        _of(r"subsets.*\.ip", "valid IP address"),
    ),
    Row(
        "events of the new group",
        "v1.21",
        "what an event of events.k8s.io is about does not change",
        _of(".*", "", "field is immutable", resources="events.events.k8s.io"),
    ),
    Row(
        "ranges",
        "v1.30",
        "what is no range of addresses, or no address of an alias, is told of in other words",
        _any(
            _of(r".*\.ipBlock\.(cidr|except\[\d+\])", "", "must be a valid CIDR value"),
            _of(r".*\.ipBlock\.(cidr|except\[\d+\])", "not a valid CIDR"),
            _of(r".*\.hostAliases(\[\d+\])?\.ip|spec\.podCIDRs\[\d+\]"),
        ),
    ),
    Row(
        "labels of namespaces",
        "v1.21",
        "namespaces carry their names in a label",
        _of(r"metadata\.labels", "", "no more than 63|a valid label must", resources="namespaces"),
    ),
    Row(
        "fewer words",
        "v1.34",
        "what is missing in a certificate request, or in the service of a webhook, is told of in fewer words",
        _of(r"spec\.signerName|.*\.service\.name(space)?", "Required value: ", "Required value'"),
    ),
    Row(
        "access modes",
        "v1.22",
        "volumes may be for one pod only",
        _of(r"spec\.accessModes", "Unsupported value", '"ReadWriteOncePod"'),
    ),
    Row(
        "names of StatefulSets",
        "v1.27",
        "the name of a StatefulSet has no dots",
        _any(
            _of(r"metadata\.(generateN|n)ame", "Invalid value", "label|63 characters", resources="statefulsets.apps"),
            _of(r"metadata\.name", "", "must not contain dots", resources="statefulsets.apps"),
        ),
    ),
    Row(
        "surge of DaemonSets",
        "v1.22",
        "a DaemonSet may make pods before it takes others away, so that none of the two may be zero",
        _of(r"spec\.updateStrategy\.rollingUpdate\.maxUnavailable", "cannot be 0", resources="daemonsets.apps"),
    ),
    Row(
        "available pods of StatefulSets",
        "v1.22",
        "StatefulSets count available pods",
        _of(r"status\.availableReplicas", "", "cannot be greater", resources="statefulsets.apps"),
    ),
    Row(
        "sources of claims",
        "v1.24",
        "a claim has its source twice, and both must be the same",
        _any(
            _of("spec", "", "must match dataSourceRef", resources="persistentvolumeclaims"),
            _of(r"spec\.dataSourceRef(\..*)?", resources="persistentvolumeclaims"),
        ),
    ),
    Row(
        "dots",
        "v1.27",
        "what is no label because it has dots is told so",
        _of(".*", "must consist of", "must not contain dots"),
    ),
    Row(
        "selectors of constraints",
        "v1.27",
        "selectors of topology spread constraints are judged",
        _of(r".*\.topologySpreadConstraints\[\d+\]\.labelSelector\..*"),
    ),
    Row(
        "ports of the host",
        "v1.28",
        "ports of templates that use the host's network get no `hostPort`",
        _of(r"(.*\.)?template\..*\.hostPort", "FieldValueDuplicate|when `hostNetwork` is true"),
    ),
    Row(
        "names of services",
        "v1.36",
        "names of services may begin with a digit",
        _of(r".*\.service\.name|metadata\.name", "DNS-1035", "RFC 1123"),
    ),
    Row(
        "nulls in lists",
        "v1.22",
        "a merge patch keeps the nulls of a list, which it dropped before",
        lambda seen: seen.request.kind_of_patch == "merge" and "None" in str(seen.request.body),
    ),
    Row(
        "shrinking claims",
        "v1.23",
        "a claim may ask for less than before, though not for less than there is",
        _of(r"spec\.resources\.requests\.storage", "less than previous value"),
    ),
    Row(
        "priorities",
        "v1.22",
        "the value of a PriorityClass is called `value`",
        _of("[Vv]alue", resources="priorityclasses.scheduling.k8s.io"),
    ),
    Row(
        "disks of workloads",
        "v1.29",
        "disks that are shared by pods need not be read-only",
        _of(r".*gcePersistentDisk\.readOnly", "must be true for replicated pods"),
    ),
    Row(
        "init containers",
        "v1.25-v1.28",
        "the name of an init container that is there already is told of once, and a policy of termination messages "
        "that is none is not supported, before it was invalid (v1.25); probes and hooks of init containers are "
        "forbidden but for those that go on (v1.28), before they were invalid",
        _any(
            _of(r".*\.initContainers\[\d+\]\.name", "FieldValueDuplicate"),
            _of(r".*\.terminationMessagePolicy", r"must be \\?'File"),
            _of(r".*\.terminationMessagePolicy", "", "FieldValueNotSupported"),
            _of(r".*\.initContainers\[\d+\]\..*", "must not be set for init containers"),
            _of(r".*\.initContainers\[\d+\]\..*", "", "may not be set for init containers"),
        ),
    ),
    Row(
        "labels of jobs",
        "v1.27",
        "a job's labels are there twice, so that a name that is no label is told of twice; its selector is another",
        _of(r"spec\.template\.(metadata\.)?labels", resources="jobs.batch"),
    ),
    Row(
        "conflicts",
        "v1.22-v1.29",
        "conflicts of an apply name subresources (v1.22), references as a whole (v1.22), and each path (v1.29)",
        lambda seen: "FieldManagerConflict" in f"{seen.difference.theirs} {seen.difference.ours}",
    ),
)


def causes_table() -> str:
    """The rows as the page shows them."""
    lines = ["| since | what is told otherwise |", "|---|---|"]
    lines += [f"| {row.since} | {row.what} |" for row in sorted(CAUSES, key=release_of)]
    return "\n".join(lines) + "\n"


def explain_cause(seen: Seen) -> Row | None:
    """The row that a difference in causes belongs to, or None."""
    return next((row for row in CAUSES if row.applies(seen)), None)
