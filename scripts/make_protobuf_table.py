"""Make ``src/pilothouse/apiserver/data/protobuf.json``: how the built-in types look as protobuf.

    python scripts/make_protobuf_table.py FIELDS GIT_DIR... > src/pilothouse/apiserver/data/protobuf.json
    python scripts/make_protobuf_table.py --older FIELDS GIT_DIR... > src/pilothouse/apiserver/data/protobuf_older.json

With ``--older``, those of versions that are not served any more and that an etcd may still hold; messages that are in
the other table are left out.

FIELDS is a JSON file of message -> field -> [number, type, "repeated"?], taken from the ``generated.proto`` files of
the release. A ``.proto`` file does not say which fields are pointers, which are inlined and what they are called in
JSON; the Go types do, in their struct tags. They are read from bare clones of kubernetes/api, apimachinery and
apiextensions-apiserver (GIT_DIR...), of that release or later: fields are joined by message and number. With
``GIT_DIR:PATH`` only what is below a path is read.

The table has, per message, rows ``[number, json name, type, flags]``. Flags: ``r`` repeated, ``m`` map (the type is
that of the values), ``p`` pointer, ``o`` left out of JSON when empty, ``i`` inlined into the parent. Only messages that
served types lead to are kept.
"""

import json
import re
import subprocess
import sys
from typing import Any

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([*\[\]\w.]+)\s+`(.*?)`", re.M)
_SERVED = {
    "core.v1": "v1",
    "admissionregistration.v1": "admissionregistration.k8s.io/v1",
    "apps.v1": "apps/v1",
    "authentication.v1": "authentication.k8s.io/v1",
    "authorization.v1": "authorization.k8s.io/v1",
    "autoscaling.v1": "autoscaling/v1",
    "autoscaling.v2": "autoscaling/v2",
    "batch.v1": "batch/v1",
    "certificates.v1": "certificates.k8s.io/v1",
    "coordination.v1": "coordination.k8s.io/v1",
    "discovery.v1": "discovery.k8s.io/v1",
    "events.v1": "events.k8s.io/v1",
    "flowcontrol.v1": "flowcontrol.apiserver.k8s.io/v1",
    "networking.v1": "networking.k8s.io/v1",
    "node.v1": "node.k8s.io/v1",
    "policy.v1": "policy/v1",
    "rbac.v1": "rbac.authorization.k8s.io/v1",
    "resource.v1": "resource.k8s.io/v1",
    "resource.v1alpha3": "resource.k8s.io/v1alpha3",
    "scheduling.v1": "scheduling.k8s.io/v1",
    "scheduling.v1alpha2": "scheduling.k8s.io/v1alpha2",
    "storage.v1": "storage.k8s.io/v1",
    "storagemigration.v1beta1": "storagemigration.k8s.io/v1beta1",
    "apiextensions.v1": "apiextensions.k8s.io/v1",
}
_OLDER = {
    "admissionregistration.v1beta1": "admissionregistration.k8s.io/v1beta1",
    "batch.v1beta1": "batch/v1beta1",
    "certificates.v1beta1": "certificates.k8s.io/v1beta1",
    "coordination.v1beta1": "coordination.k8s.io/v1beta1",
    "discovery.v1beta1": "discovery.k8s.io/v1beta1",
    "flowcontrol.v1beta1": "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.v1beta2": "flowcontrol.apiserver.k8s.io/v1beta2",
    "flowcontrol.v1beta3": "flowcontrol.apiserver.k8s.io/v1beta3",
    "networking.v1beta1": "networking.k8s.io/v1beta1",
    "node.v1beta1": "node.k8s.io/v1beta1",
    "policy.v1beta1": "policy/v1beta1",
    "rbac.v1beta1": "rbac.authorization.k8s.io/v1beta1",
    "resource.v1beta1": "resource.k8s.io/v1beta1",
    "resource.v1beta2": "resource.k8s.io/v1beta2",
    "scheduling.v1beta1": "scheduling.k8s.io/v1beta1",
    "storage.v1beta1": "storage.k8s.io/v1beta1",
}
"""Storage versions of v1.20 to v1.36 that nothing is served in."""
_OTHERS = ("resource.v1alpha3.DeviceTaintRule", "resource.v1alpha3.DeviceTaintRuleList")
"""Of those packages, what is not served."""
_META = (
    "CreateOptions",
    "DeleteOptions",
    "UpdateOptions",
    "PatchOptions",
    "Status",
    "WatchEvent",
    "PartialObjectMetadata",
    "PartialObjectMetadataList",
    "APIGroup",
    "APIGroupList",
    "APIResourceList",
    "APIVersions",
    "GetOptions",
    "ListOptions",
)
# kube-aggregator's one type; the field list of the release does not cover that module.
_API_SERVICES: dict[str, list[list[object]]] = {
    "apiregistration.v1.APIService": [
        [1, "metadata", "meta.v1.ObjectMeta", "o"],
        [2, "spec", "apiregistration.v1.APIServiceSpec", "o"],
        [3, "status", "apiregistration.v1.APIServiceStatus", "o"],
    ],
    "apiregistration.v1.APIServiceList": [
        [1, "metadata", "meta.v1.ListMeta", "o"],
        [2, "items", "apiregistration.v1.APIService", "r"],
    ],
    "apiregistration.v1.APIServiceSpec": [
        [1, "service", "apiregistration.v1.ServiceReference", "po"],
        [2, "group", "string", "o"],
        [3, "version", "string", "o"],
        [4, "insecureSkipTLSVerify", "bool", "o"],
        [5, "caBundle", "bytes", "o"],
        [7, "groupPriorityMinimum", "int32", ""],
        [8, "versionPriority", "int32", ""],
    ],
    "apiregistration.v1.ServiceReference": [
        [1, "namespace", "string", "o"],
        [2, "name", "string", "o"],
        [3, "port", "int32", "po"],
    ],
    "apiregistration.v1.APIServiceStatus": [[1, "conditions", "apiregistration.v1.APIServiceCondition", "or"]],
    "apiregistration.v1.APIServiceCondition": [
        [1, "type", "string", ""],
        [2, "status", "string", ""],
        [3, "lastTransitionTime", "meta.v1.Time", "o"],
        [4, "reason", "string", "o"],
        [5, "message", "string", "o"],
    ],
}
# metrics-server's types (k8s.io/metrics).
_METRICS: dict[str, list[list[object]]] = {
    "metrics.v1beta1.ContainerMetrics": [
        [1, "name", "string", ""],
        [2, "usage", "resource.Quantity", "m"],
    ],
    "metrics.v1beta1.NodeMetrics": [
        [1, "metadata", "meta.v1.ObjectMeta", "o"],
        [2, "timestamp", "meta.v1.Time", ""],
        [3, "window", "meta.v1.Duration", ""],
        [4, "usage", "resource.Quantity", "m"],
    ],
    "metrics.v1beta1.NodeMetricsList": [
        [1, "metadata", "meta.v1.ListMeta", "o"],
        [2, "items", "metrics.v1beta1.NodeMetrics", "r"],
    ],
    "metrics.v1beta1.PodMetrics": [
        [1, "metadata", "meta.v1.ObjectMeta", "o"],
        [2, "timestamp", "meta.v1.Time", ""],
        [3, "window", "meta.v1.Duration", ""],
        [4, "containers", "metrics.v1beta1.ContainerMetrics", "r"],
    ],
    "metrics.v1beta1.PodMetricsList": [
        [1, "metadata", "meta.v1.ListMeta", "o"],
        [2, "items", "metrics.v1beta1.PodMetrics", "r"],
    ],
}


def _short(name: str) -> str:
    for prefix in (
        "k8s.io.api.",
        "k8s.io.apiextensions_apiserver.pkg.apis.",
        "k8s.io.apimachinery.pkg.apis.",
        "k8s.io.apimachinery.pkg.api.",
        "k8s.io.apimachinery.pkg.",
    ):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _go_fields(git_dirs: list[str]) -> dict[str, dict[int, tuple[str, str]]]:
    """Message -> field number -> (JSON name, flags)."""
    found: dict[str, dict[int, tuple[str, str]]] = {}
    for place in git_dirs:
        git_dir, _, path = place.partition(":")
        names = subprocess.run(
            ["git", "-C", git_dir, "ls-tree", "-r", "--name-only", "HEAD", path or "."],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        for name in names:
            if not re.search(
                r"/(types\w*|time|micro_time|quantity|intstr|duration|generated|group_version)\.go$", name
            ):
                continue
            package = ".".join(name.split("/")[-3:-1]).removeprefix("pkg.")
            text = subprocess.run(
                ["git", "-C", git_dir, "show", f"HEAD:{name}"], check=True, capture_output=True, text=True
            ).stdout
            for struct, body in _STRUCT.findall(text):
                for _name, go_type, tag in _FIELD.findall(body):
                    number = re.search(r'protobuf:"\w+,(\d+)', tag)
                    json_tag = re.search(r'json:"([^"]*)"', tag)
                    if number is None or json_tag is None:
                        continue
                    json_name, *options = json_tag.group(1).split(",")
                    flags = "p" if go_type.startswith("*") else ""
                    flags += "o" if "omitempty" in options or "omitzero" in options else ""
                    flags += "i" if not json_name else ""
                    found.setdefault(f"{package}.{struct}", {})[int(number.group(1))] = (json_name, flags)
    return found


def main() -> None:
    older = sys.argv[1] == "--older"
    fields_file, *git_dirs = sys.argv[1 + older :]
    with open(fields_file) as file:
        messages = {_short(name): fields for name, fields in json.load(file).items()}
    go = _go_fields(git_dirs)
    kinds, table = _table(messages, go, _SERVED, ["meta.v1." + name for name in _META])
    if older:
        others, more = _table(messages, go, _OLDER, [])
        _print(
            {kind: message for kind, message in others.items() if not kind.endswith("List")},
            {
                name: rows
                for name, rows in more.items()
                if name not in table and not (name.endswith("List") and name in others.values())
            },
        )
        return
    for kind in ("NodeProxyOptions", "PodAttachOptions", "PodExecOptions", "PodLogOptions", "PodPortForwardOptions"):
        kinds[f"v1 {kind}"] = f"core.v1.{kind}"
        table.update(_table(messages, go, {}, [f"core.v1.{kind}"])[1])
    table.update(_API_SERVICES)
    for kind in ("APIService", "APIServiceList"):
        kinds[f"apiregistration.k8s.io/v1 {kind}"] = f"apiregistration.v1.{kind}"
    table.update(_METRICS)
    for kind in ("NodeMetrics", "NodeMetricsList", "PodMetrics", "PodMetricsList"):
        kinds[f"metrics.k8s.io/v1beta1 {kind}"] = f"metrics.v1beta1.{kind}"
    _print(kinds, table)
    for name in sorted(table):
        if table[name] and name not in go and name not in _API_SERVICES and name not in _METRICS:
            sys.stderr.write(f"no Go type for {name}\n")


Rows = dict[str, list[list[object]]]


def _table(
    messages: dict[str, dict[str, list[Any]]],
    go: dict[str, dict[int, tuple[str, str]]],
    versions: dict[str, str],
    queue: list[str],
) -> tuple[dict[str, str], Rows]:
    """Kinds of these versions, and the messages that they and those in the queue lead to."""
    table: Rows = {}
    kinds: dict[str, str] = {}
    for message, fields in messages.items():
        package, _, kind = message.rpartition(".")
        if message in _OTHERS:
            continue
        if package in versions and "metadata" in fields and not kind.endswith("TemplateSpec"):
            kinds[f"{versions[package]} {kind}"] = message
            queue.append(message)
    while queue:
        message = queue.pop()
        if message in table:
            continue
        rows: list[list[object]] = []
        table[message] = rows
        for proto_name, (number, type_name, *repeated) in messages[message].items():
            json_name, flags = go.get(message, {}).get(number, (proto_name, "o"))
            if mapped := re.fullmatch(r"map<string,(.*)>", type_name):
                type_name, flags = mapped.group(1), flags + "m"
            if repeated:
                flags += "r"
            type_name = _short(type_name)
            rows.append([number, json_name, type_name, flags])
            if type_name in messages:
                queue.append(type_name)
    return kinds, table


def _print(kinds: dict[str, str], table: Rows) -> None:
    lines = [f"{json.dumps(name)}:{json.dumps(table[name], separators=(',', ':'))}" for name in sorted(table)]
    sys.stdout.write('{"kinds":' + json.dumps(kinds, separators=(",", ":")) + ',\n"messages":{\n' + ",\n".join(lines))
    sys.stdout.write("}}\n")


main()
