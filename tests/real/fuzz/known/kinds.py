"""What a kind has, means or refuses otherwise."""

import re

from tests.real.fuzz.bases import DEFINITIONS
from tests.real.fuzz.comparing import ABSENT
from tests.real.fuzz.known.rows import Row, Seen, anyone, cause, matches, new, of, our_causes, pointers


def _namespace_label(seen: Seen) -> bool:
    theirs, ours = seen.difference.theirs, seen.difference.ours
    if seen.path.endswith("metadata.labels.kubernetes.io/metadata.name"):
        return True
    if seen.resource == "namespaces" and seen.request.kind_of_patch == "json" and seen.theirs.code == 422:
        # There are labels to add to.
        return seen.ours.accepted and "/metadata/labels/" in pointers(seen.request.body)
    return seen.path.endswith("metadata.labels") and theirs is ABSENT and list(ours) == ["kubernetes.io/metadata.name"]


def _generations(seen: Seen) -> bool:
    if seen.request.method == "POST" and seen.path == "body.metadata.generation":
        return bool(seen.difference.ours == 1)  # before, what the client said was kept
    if seen.path == "body.items.*.metadata.generation" and isinstance(seen.difference.theirs, int):
        return bool(seen.difference.ours == 1)
    return new("metadata.generation")(seen)


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


def _service_status(seen: Seen) -> bool:
    refused = seen.theirs.code != 422 and seen.ours.code == 422
    return refused and "may only be used when `spec.type` is 'LoadBalancer'" in seen.ours.body["message"]


def _drivers(seen: Seen) -> bool:
    if seen.theirs.code == 422 and seen.ours.accepted:
        return "spec: Invalid value" in str(seen.theirs.body)
    return re.search("storageCapacity|requiresRepublish|tokenRequests|generation", seen.path) is not None


def _attachable(seen: Seen) -> bool:
    return seen.ours.accepted and "CSINodeDriver" in str(seen.theirs.body)


def _stateful_sets(seen: Seen) -> bool:
    judged = r"spec\.(template\.spec|volumeClaimTemplates\[|serviceName)"
    if seen.theirs.code in (200, 201, 409) and seen.ours.code == 422 and re.search(judged, str(seen.ours.body)):
        return True
    if seen.theirs.accepted and seen.ours.code == 422:
        return seen.request.method == "POST" and "metadata.name: Invalid value" in str(seen.ours.body)
    if seen.theirs.code == 422 and seen.ours.accepted:
        return "updates to statefulset spec" in str(seen.theirs.body)
    return seen.path.endswith(("updateStrategy.rollingUpdate", "metadata.generation"))


def _listed_once(seen: Seen) -> bool:
    """Causes that both have, one time less."""
    if seen.difference.theirs is ABSENT:
        return False
    field, reason = seen.path.removeprefix("cause "), seen.difference.theirs[0]
    return any((told["field"], told["reason"]) == (field, reason) for told in our_causes(seen))


def _judged_in_pods(seen: Seen) -> bool:
    if seen.ours.code != 422 or seen.theirs.code == 422:
        return False
    told = re.findall(r"(\S+): (?:Invalid|Required|Forbidden)", str(seen.ours.body["message"]))
    judged = r"topologySpreadConstraints\[\d+\]\.labelSelector\.|status\.qosClass$|\.ephemeralContainers"
    return bool(told) and all(re.search(judged, each) for each in told)


def _host_ports(seen: Seen) -> bool:
    in_template = seen.path.endswith(".hostPort") and ".template." in f".{seen.path}"
    return in_template and seen.difference.ours is ABSENT


_SECCOMP = re.compile(r"(container\.)?seccomp\.security\.alpha\.kubernetes\.io/")


def _seccomp(seen: Seen) -> bool:
    _before, found, name = seen.path.partition("metadata.annotations")
    if not found or seen.difference.ours is not ABSENT:
        return False
    theirs = seen.difference.theirs
    names = list(theirs) if isinstance(theirs, dict) else [name.removeprefix(".")]
    return all(_SECCOMP.match(each) for each in names)


def _negative_grace(seen: Seen) -> bool:
    if not seen.path.endswith(("deletionGracePeriodSeconds", "deletionTimestamp")):
        return False
    before, after = (answer.body["metadata"].get("deletionGracePeriodSeconds") for answer in (seen.theirs, seen.ours))
    return isinstance(before, int) and before < 0 and after == 1


def _revisions(seen: Seen) -> bool:
    if seen.theirs.accepted and seen.ours.code == 422:
        return " data: " in seen.ours.body["message"]
    return seen.theirs.code == 422 and seen.ours.accepted


def _claims(seen: Seen) -> bool:
    if seen.path.endswith("spec.dataSource"):
        return seen.difference.theirs is ABSENT
    if seen.theirs.accepted and seen.ours.code == 422:
        return "spec.dataSource" in seen.ours.body["message"]
    told = str(seen.theirs.body)
    return seen.theirs.code == 422 and seen.ours.accepted and "StorageClassName: nil" in told


def _metadata_of_status(seen: Seen) -> bool:
    if not seen.request.path.endswith("/status"):
        return False
    if seen.theirs.accepted and seen.ours.code == 422:
        return " metadata." in seen.ours.body["message"]
    return seen.path.startswith("body.metadata.")


def _jobs(seen: Seen) -> bool:
    if new("spec.ttlSecondsAfterFinished", "spec.manualSelector")(seen):
        return True
    if re.search("controller-uid|batch.kubernetes.io/", f"{seen.path}{seen.difference.ours}") is not None:
        return True
    if seen.request.kind_of_patch == "json" and "/controller-uid" in pointers(seen.request.body):
        return seen.theirs.code == seen.ours.code == 422
    return seen.theirs.code == 422 and seen.ours.accepted and "spec.selector: " in str(seen.theirs.body)


_CLAIMS = "persistentvolumeclaims"
_DRIVERS, _DRIVERS_OF_NODES = "csidrivers.storage.k8s.io", "csinodes.storage.k8s.io"
_CLASSES, _KEPT = "storageclasses.storage.k8s.io", "provisioner|parameters|reclaimPolicy|volumeBindingMode"
_AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
_EVENTS = "events.events.k8s.io"
_SETS = "statefulsets.apps"
_INIT_CONTAINER = r".*\.initContainers\[\d+\]\."

KINDS: tuple[Row, ...] = (
    Row(
        "namespaces",
        {"v1.21": "they carry the label `kubernetes.io/metadata.name`"},
        applies=_namespace_label,
        causes=of("namespaces", applies=cause(r"metadata\.labels", "", "no more than 63|a valid label must")),
    ),
    Row(
        "services",
        {
            "v1.21": "they have IP families, which took a feature gate before",
            "v1.23": "they are stored like everything else: conflicts come before validation, addresses that a PUT "
            "leaves out are kept, DELETE answers the service, a dry run shows an address, there is deletecollection, "
            "and what is wrong is found in one place",
            "v1.24": "`allocateLoadBalancerNodePorts` and load balancers of several protocols took gates, too",
            "v1.27": "`externalTrafficPolicy` is defaulted also with `externalIPs`",
            "v1.29": "only load balancers have a status",
            "v1.36": "their names may begin with a digit, where others name them, too",
        },
        applies=of(
            "services", applies=anyone(_families, _service_registry, _service_status, new("spec.externalTrafficPolicy"))
        ),
        causes=anyone(
            of("services", applies=lambda seen: seen.path != "cause patch"),
            cause(r".*\.service\.name|metadata\.name", "DNS-1035", "RFC 1123"),
        ),
    ),
    Row(
        "endpoints",
        {"v1.33": "what is no address is told of once"},
        causes=cause(r"subsets.*\.ip", "valid IP address"),
    ),
    Row(
        "jobs",
        {
            "v1.21": "`ttlSecondsAfterFinished` is there without a feature gate",
            "v1.27": "what the server says of a job in labels is there under `batch.kubernetes.io/` too, so that a "
            "name that is no label is told of twice, and a generated selector is another",
            "v1.31": "`manualSelector` is false where it is not given",
        },
        applies=of("jobs.batch", applies=_jobs),
        causes=of("jobs.batch", applies=cause(r"spec\.template\.(metadata\.)?labels")),
    ),
    Row(
        "generations",
        {"v1.23": "jobs have one", "v1.28": "so do pod templates", "v1.34": "and pods"},
        applies=of("jobs.batch", "podtemplates", "pods", applies=_generations),
    ),
    Row(
        "pods",
        {
            "v1.22": "a grace period of less than nothing is one second",
            "v1.25": "seccomp profiles are not written down in annotations too",
            "v1.27": "a write of the status without `qosClass` keeps it, and no other may change it",
            "v1.35": "binding clears `nominatedNodeName`",
        },
        applies=of(
            "pods",
            applies=anyone(
                _seccomp,
                _negative_grace,
                new("status.qosClass"),
                lambda seen: seen.path.endswith("status.nominatedNodeName"),
            ),
        ),
        diverges=_negative_grace,
    ),
    Row(
        "specs of pods, also in templates",
        {
            "v1.23": "ephemeral containers took a feature gate before; templates may have none",
            "v1.25": "an init container's name that is there already is told of once; a `terminationMessagePolicy` "
            "that is none is not supported, before it was invalid",
            "v1.27": "selectors of topology spread constraints are judged",
            "v1.28": "templates that use the host's network get no `hostPort`; probes and hooks of init containers "
            "are forbidden but for those that go on, before they were invalid",
            "v1.29": "disks that pods share need not be read-only",
        },
        applies=anyone(_judged_in_pods, _host_ports),
        causes=anyone(
            cause(r".*\.topologySpreadConstraints\[\d+\]\.labelSelector\..*"),
            cause(r"(.*\.)?template\..*\.hostPort", "FieldValueDuplicate|when `hostNetwork` is true"),
            cause(r".*gcePersistentDisk\.readOnly", "must be true for replicated pods"),
            cause(r".*\.terminationMessagePolicy", r"must be \\?'File"),
            cause(r".*\.terminationMessagePolicy", "", "FieldValueNotSupported"),
            cause(f"{_INIT_CONTAINER}name", "FieldValueDuplicate"),
            cause(f"{_INIT_CONTAINER}.*", "must not be set for init containers"),
            cause(f"{_INIT_CONTAINER}.*", "", "may not be set for init containers"),
        ),
    ),
    Row(
        "StatefulSets",
        {
            "v1.22": "they count available pods",
            "v1.27": "their names have no dots",
            "v1.33": "more of them may change (`revisionHistoryLimit`), which the error lists",
            "v1.34": "a `partition` is always filled in, and their templates of pods and claims are validated like all "
            "others",
        },
        applies=of(_SETS, applies=_stateful_sets),
        causes=of(
            _SETS,
            applies=anyone(
                lambda seen: seen.path.startswith(("cause spec.template.spec.", "cause spec.volumeClaimTemplates[")),
                cause(r"spec\.serviceName"),
                cause("spec", "updates to statefulset spec"),
                cause(r"spec\.revisionHistoryLimit"),
                cause(r"metadata\.(generateN|n)ame", "Invalid value", "label|63 characters"),
                cause(r"metadata\.name", "", "must not contain dots"),
                cause(r"status\.availableReplicas", "", "cannot be greater"),
            ),
        ),
        diverges=True,
    ),
    Row(
        "updates of StatefulSets and quotas",
        {"v1.23": "they are judged once, so that each cause is listed less often"},
        causes=of(_SETS, "resourcequotas", applies=_listed_once),
    ),
    Row(
        "DaemonSets",
        {"v1.22": "they may make pods before they take others away, so that none of the two may be zero"},
        causes=of(
            "daemonsets.apps",
            applies=anyone(
                cause(r"spec\.updateStrategy\.rollingUpdate\.maxUnavailable", "cannot be 0"),
                cause(r"spec\.updateStrategy\.rollingUpdate\.maxUnavailable", "", "cannot be 0 when maxSurge is 0"),
            ),
        ),
    ),
    Row(
        "ControllerRevisions",
        {
            "v1.21": "strategic merge patches are granted; before, their data seemed to change",
            "v1.31": "their data is an object, which is looked at when they are made, and only then",
        },
        applies=of("controllerrevisions.apps", applies=_revisions),
        causes=of("controllerrevisions.apps", applies=cause("data")),
        diverges=True,
    ),
    Row(
        "autoscalers",
        {
            "v1.36": "the kind that is scaled has a group in its `apiVersion`, and `maxReplicas` of zero is a missing "
            "value"
        },
        applies=of(
            _AUTOSCALERS,
            applies=lambda seen: seen.theirs.code != 422 and "scaleTargetRef.apiVersion" in str(seen.ours.body),
        ),
        causes=of(_AUTOSCALERS, applies=cause(r"spec\.maxReplicas|spec\.scaleTargetRef\.apiVersion")),
    ),
    Row(
        "claims and volumes",
        {
            "v1.22": "they may be for one pod only",
            "v1.23": "a claim may ask for less than before, though not for less than there is",
            "v1.24": "a claim's data may come from any kind of source; it has its source twice, and both must be the "
            "same; the path `nodePublishSecretRef` has lost a blank",
            "v1.26": "a claim without a storage class may be given one later",
        },
        applies=of(_CLAIMS, applies=_claims),
        causes=anyone(
            cause(r"spec\.accessModes", "Unsupported value", '"ReadWriteOncePod"'),
            cause(r"spec\.resources\.requests\.storage", "less than previous value"),
            cause(r"spec\.csi\.nodePublishSecretRef ?\..*", "Required value"),
            cause(r"spec\.csi\.nodePublishSecretRef ?\..*", "", "Required value"),
            of(_CLAIMS, applies=cause("spec", "", "must match dataSourceRef")),
            of(_CLAIMS, applies=cause(r"spec\.dataSourceRef(\..*)?")),
        ),
        diverges=True,
    ),
    Row(
        "what would have changed",
        {"v1.34": "of a pod, a claim or the source of a volume it is shown as JSON; more of it may change"},
        causes=anyone(
            of("pods", _CLAIMS, applies=cause("spec", "may not change fields|immutable after creation")),
            cause("spec.persistentvolumesource"),
        ),
    ),
    Row(
        "kinds of storage.k8s.io",
        {
            "v1.22": "`storageCapacity` and `requiresRepublish` are there without a feature gate; two fields of a "
            "CSIDriver may not change, before it was its whole spec; a node's id may be longer than 128 characters",
            "v1.30": "more of a CSIDriver's spec may change",
            "v1.33": "what may not change of a CSINode is called `spec.drivers`",
            "v1.36": "how much a driver of a CSINode can attach may change; what stays in a StorageClass is immutable, "
            "before it was forbidden",
        },
        applies=anyone(of(_DRIVERS, applies=_drivers), of(_DRIVERS_OF_NODES, applies=_attachable)),
        causes=anyone(
            of(_DRIVERS, applies=cause(r"spec(\..*)?")),
            of(_CLASSES, applies=cause(_KEPT, "updates to .* are forbidden")),
            of(_CLASSES, applies=cause(_KEPT, "", "field is immutable")),
            of(_DRIVERS_OF_NODES, applies=cause(r"CSINodeDriver|spec\.drivers")),
            of(_DRIVERS_OF_NODES, applies=cause(r"spec\.drivers\[\d+\]\.nodeID", "must be 128 characters or less")),
            of(_DRIVERS_OF_NODES, applies=cause(r"spec\.drivers\[\d+\]\.nodeID", "", "must be 256 characters or less")),
        ),
        diverges=True,
    ),
    Row(
        "definitions of resources",
        {
            "v1.33": "a stored version that they no longer have is told of in more words, and for one that is missing "
            "the others are shown, not the version",
            "v1.36": "a write to their status changes their metadata, too, by mistake (kubernetes#137681); since which "
            "release was not found",
        },
        applies=of(DEFINITIONS, applies=_metadata_of_status),
        causes=of(
            DEFINITIONS,
            applies=anyone(
                cause(r"status\.storedVersions\[\d+\]", "must appear in", "was previously"),
                cause(r"status\.storedVersions", "must have the storage version", "must have the storage version"),
            ),
        ),
        diverges=True,
    ),
    Row(
        "nodes",
        {"v1.24": "of the spec the field is named that may not change, not all of it"},
        causes=of("nodes", applies=cause(r"\[\]|spec.externalID")),
    ),
    Row(
        "events of events.k8s.io",
        {"v1.21": "what they are about does not change"},
        applies=of(_EVENTS, applies=lambda seen: seen.theirs.accepted and "field is immutable" in str(seen.ours.body)),
        causes=of(_EVENTS, applies=cause(".*", "", "field is immutable")),
    ),
    Row(
        "priority classes",
        {"v1.22": "what is wrong is their `value`, in lower case"},
        causes=of("priorityclasses.scheduling.k8s.io", applies=cause("[Vv]alue")),
    ),
    Row(
        "reviews of one's own rules",
        {"v1.28": "the roles that everybody has grant more: `selfsubjectreviews`"},
        applies=of(
            "selfsubjectrulesreviews.authorization.k8s.io", applies=lambda seen: seen.path.startswith("body.status")
        ),
    ),
    Row(
        "token requests",
        {"v1.27": "the answer names the account"},
        applies=lambda seen: seen.request.path.endswith("/token") and seen.path.startswith("body.metadata."),
    ),
    Row(
        "groups in errors",
        {"v1.22": "errors about ingresses and network policies name their own; before it was `extensions`"},
        applies=lambda seen: (
            seen.difference.theirs == "extensions"
            or (
                matches(r"Ingress\.extensions|NetworkPolicy\.extensions", seen.difference.theirs)
                and matches(r"\.networking", seen.difference.ours)
            )
        ),
    ),
)
