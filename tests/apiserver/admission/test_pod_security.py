"""Pod security standards: checks, labels, warnings (pod-security-admission's ``policy`` and ``admission``, v0.36)."""

from typing import Any

from tests.apiserver.api import NAMESPACES, Answer, Api, pod
from tests.tables import cases

from pilothouse.apiserver import ServerOptions
from pilothouse.apiserver.admission.pod_security.levels import (
    LATEST,
    LevelVersion,
    PodSecurityOptions,
    Policy,
    policy_to_evaluate,
)
from pilothouse.apiserver.admission.pod_security.violations import checks_of, forbidden_detail, violations
from pilothouse.env import Env

LABEL = "pod-security.kubernetes.io/"
GOOD_CONTEXT: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def a_container(name: str = "c", **context: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", "securityContext": context}


def violations_of(
    level: str, spec: dict[str, Any], version: int = LATEST, annotations: dict[str, str] | None = None
) -> str:
    spec = {"containers": [a_container()], **spec}
    return forbidden_detail(violations(LevelVersion(level, version), {"annotations": annotations or {}}, spec))


@cases(
    "spec, expected",
    {
        "an ordinary pod": ({}, ""),
        "namespaces of the host": (
            {"hostNetwork": True, "hostIPC": True, "hostPID": True},
            "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
        ),
        "privileged, init containers first": (
            {"containers": [a_container("a", privileged=True)], "initContainers": [a_container("b", privileged=True)]},
            'privileged (containers "b", "a" must not set securityContext.privileged=true)',
        ),
        "capabilities": (
            {"containers": [a_container(capabilities={"add": ["NET_RAW", "CHOWN", "BPF"]})]},
            'non-default capabilities (container "c" must not include "BPF", "NET_RAW" in '
            "securityContext.capabilities.add)",
        ),
        "folders of the host": (
            {"volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "hostPath": {"path": "/"}}]},
            'hostPath volumes (volumes "v", "w")',
        ),
        "ports of the host, sorted as text": (
            {"containers": [{"name": "c", "ports": [{"hostPort": 90}, {"hostPort": 8080}, {"containerPort": 1}]}]},
            'hostPort (container "c" uses hostPorts 8080, 90)',
        ),
        "probes of other hosts": (
            {
                "containers": [
                    {
                        "name": "c",
                        "livenessProbe": {"httpGet": {"host": "b"}},
                        "lifecycle": {"preStop": {"tcpSocket": {"host": "a"}}},
                    }
                ]
            },
            'probe or lifecycle host (container "c" uses probe or lifecycle hosts "a", "b")',
        ),
        "proc": (
            {"containers": [a_container(procMount="Unmasked")]},
            'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
        ),
        "proc, own users": ({"hostUsers": False, "containers": [a_container(procMount="Unmasked")]}, ""),
        "SELinux": (
            {
                "securityContext": {"seLinuxOptions": {"type": "x", "role": "r"}},
                "containers": [a_container(seLinuxOptions={"user": "u", "type": "container_engine_t"})],
            },
            'seLinuxOptions (pod and container "c" set forbidden securityContext.seLinuxOptions: type "x"; user may '
            "not be set; role may not be set)",
        ),
        "seccomp": (
            {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
            'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
        "sysctls": (
            {"securityContext": {"sysctls": [{"name": "b"}, {"name": "net.ipv4.tcp_rmem"}, {"name": "a"}]}},
            "forbidden sysctls (b, a)",
        ),
        "processes of a Windows host": (
            {"containers": [a_container(windowsOptions={"hostProcess": True})]},
            'hostProcess (container "c" must not set securityContext.windowsOptions.hostProcess=true)',
        ),
        "AppArmor": (
            {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
            'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")',
        ),
    },
)
def test_baseline(spec: dict[str, Any], expected: str) -> None:
    assert violations_of("baseline", spec) == expected


@cases(
    "spec, expected",
    {
        "a hardened pod": ({"containers": [a_container(**GOOD_CONTEXT)]}, ""),
        "an ordinary pod": (
            {},
            'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)'
            ', unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), '
            'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), seccompProfile '
            '(pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
        ),
        "Windows": ({"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": True}}, ""),
        "volumes, hostPath among them": (
            {
                "containers": [a_container(**GOOD_CONTEXT)],
                "volumes": [{"name": "a", "nfs": {}}, {"name": "b", "hostPath": {}}, {"name": "c", "image": {}}],
            },
            'restricted volume types (volumes "a", "b" use restricted volume types "hostPath", "nfs")',
        ),
        "root": (
            {
                "securityContext": {"runAsUser": 0},
                "containers": [a_container(**{**GOOD_CONTEXT, "runAsUser": 0, "runAsNonRoot": False})],
            },
            'runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false), runAsUser=0 (pod '
            'and container "c" must not set runAsUser=0)',
        ),
        "root among users of its own": (
            {
                "hostUsers": False,
                "containers": [a_container(**{**GOOD_CONTEXT, "runAsUser": 0, "runAsNonRoot": False})],
            },
            "",
        ),
        "capabilities": (
            {"containers": [a_container(**{**GOOD_CONTEXT, "capabilities": {"add": ["CHOWN", "NET_BIND_SERVICE"]}})]},
            'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]; container '
            '"c" must not include "CHOWN" in securityContext.capabilities.add)',
        ),
    },
)
def test_restricted(spec: dict[str, Any], expected: str) -> None:
    assert violations_of("restricted", spec) == expected


@cases(
    "version, spec, violated",
    {
        "seccompProfile was added in 1.19": (0, {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, False),
        "since 1.19": (19, {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, True),
        "unsafe sysctl before 1.27": (26, {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}}, True),
        "safe since 1.32": (32, {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}}, False),
        "probe hosts were not checked before 1.34": (
            33,
            {"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "b"}}}]},
            False,
        ),
        "the future is now": (99, {"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "b"}}}]}, True),
    },
)
def test_versions(version: int, spec: dict[str, Any], violated: bool) -> None:
    assert bool(violations_of("baseline", spec, version)) is violated


def test_annotations_are_evaluated_in_old_versions() -> None:
    key = "seccomp.security.alpha.kubernetes.io/pod"
    assert violations_of("baseline", {}, 18, {key: "unconfined"}) == (
        f'seccompProfile (forbidden annotation {key}="unconfined")'
    )
    armor = "container.apparmor.security.beta.kubernetes.io/c"
    assert violations_of("baseline", {}, annotations={key: "unconfined", armor: "unconfined"}) == (
        f'forbidden AppArmor profile (annotation must not set AppArmor profile type to "{armor}="unconfined"")'
    )


def test_restricted_checks_override_baseline_checks() -> None:
    assert len(checks_of("baseline", 36)) == 12
    assert len(checks_of("restricted", 36)) == 12 - 4 + 7
    assert checks_of("privileged", 36) == ()


@cases(
    "labels, expected, problems",
    {
        "no labels": ({}, "privileged:latest privileged:latest privileged:latest", 0),
        "warn defaults to enforce": (
            {"enforce": "baseline", "enforce-version": "v1.30"},
            "baseline:v1.30 privileged:latest baseline:v1.30",
            0,
        ),
        "warn label overrides enforce": (
            {"enforce": "baseline", "warn": "privileged"},
            "baseline:latest privileged:latest privileged:latest",
            0,
        ),
        "nonsense is strict where it refuses, and mild where it talks": (
            {"enforce": "x", "warn": "y", "audit-version": "1.3"},
            "restricted:latest privileged:latest privileged:latest",
            3,
        ),
    },
)
def test_labels(labels: dict[str, str], expected: str, problems: int) -> None:
    policy, evaluated = policy_to_evaluate({LABEL + key: value for key, value in labels.items()}, Policy())
    assert f"{policy.enforce} {policy.audit} {policy.warn}" == expected
    assert len(evaluated) == problems


async def namespace(api: Api, name: str = "n", **labels: str) -> Answer:
    named = {LABEL + key.replace("_", "-"): value for key, value in labels.items()}
    return await api.post(NAMESPACES, {"metadata": {"name": name, "labels": named}})


def warnings(answer: Answer) -> str:
    return str(answer.headers.get("warning", ""))


IN_N = "/api/v1/namespaces/n/pods"


async def test_enforce_violation_is_rejected_without_warnings(api: Api) -> None:
    await namespace(api, enforce="baseline", enforce_version="v1.30", warn="restricted")
    rejected = await api.post(IN_N, pod(hostNetwork=True))
    elsewhere = (await api.post("/api/v1/namespaces/default/pods", pod(hostNetwork=True))).status
    assert (rejected.status, rejected.body["reason"]) == (403, "Forbidden")
    assert rejected.message == (
        'pods "p" is forbidden: violates PodSecurity "baseline:v1.30": host namespaces (hostNetwork=true)'
    )
    assert warnings(rejected) == ""
    assert elsewhere == 201


async def test_warn_violations_of_pods_and_templates(api: Api) -> None:
    await namespace(api, warn="baseline")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(hostPID=True)["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    job = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}
    template["spec"]["restartPolicy"] = "Always"
    deployed = await api.post("/apis/apps/v1/namespaces/n/deployments", {"metadata": {"name": "d"}, "spec": spec})
    template["spec"]["restartPolicy"] = "Never"
    timed = await api.post("/apis/batch/v1/namespaces/n/cronjobs", {"metadata": {"name": "d"}, "spec": job})
    *bad, good = [await api.post(IN_N, pod(hostPID=True)), deployed, timed, await api.post(IN_N, pod("q"))]
    for answer in bad:
        assert answer.status == 201, answer.text
        expected = r"would violate PodSecurity \"baseline:latest\": host namespaces (hostPID=true)"
        assert warnings(answer) == f'299 - "{expected}"'
    assert warnings(good) == ""


async def test_only_updates_of_containers_are_evaluated(api: Api) -> None:
    await namespace(api)
    await api.create(IN_N, pod(hostPID=True))
    await api.patch(f"{NAMESPACES}/n", {"metadata": {"labels": {LABEL + "enforce": "baseline"}}})
    labelled = await api.patch(f"{IN_N}/p", {"metadata": {"labels": {"a": "b"}}})
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "other"}]
    changed = await api.patch(f"{IN_N}/p", image, "application/json-patch+json")
    status = await api.patch(f"{IN_N}/p/status", {"status": {"phase": "Running"}})
    assert [labelled.status, changed.status, status.status] == [200, 403, 200]


async def test_stricter_namespace_label_warns_of_existing_pods(api: Api) -> None:
    await namespace(api)
    for name in ("b", "a", "c"):
        await api.create(IN_N, pod(name, hostPID=True))
    await api.create(IN_N, pod("p", containers=[a_container(**GOOD_CONTEXT)]))
    await api.create(IN_N, pod("z", hostPID=True, containers=[a_container(privileged=True)]))
    target = f"{NAMESPACES}/n"
    strict = await api.patch(target, {"metadata": {"labels": {LABEL + "enforce": "baseline"}}})
    again = await api.patch(target, {"metadata": {"labels": {"x": "y"}}})
    milder = await api.patch(target, {"metadata": {"labels": {LABEL + "enforce": "privileged"}}})
    first, *others = warnings(strict), warnings(again), warnings(milder)
    assert first == ", ".join(
        f'299 - "{text}"'
        for text in (
            r"existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a (and 2 other pods): host namespaces",
            "z: host namespaces, privileged",
        )
    )
    assert others == ["", ""]


async def test_invalid_labels_are_rejected_unless_unchanged(api: Api) -> None:
    created = await namespace(api, enforce="x")
    await namespace(api)
    changed = await api.patch(f"{NAMESPACES}/n", {"metadata": {"labels": {LABEL + "warn-version": "x"}}})
    assert (created.status, changed.status) == (422, 422)
    assert created.message == (
        f'Namespace "n" is invalid: metadata.labels[{LABEL}enforce]: Invalid value: "x": must be one of privileged, '
        "baseline, restricted"
    )
    assert changed.message.endswith(
        f'metadata.labels[{LABEL}warn-version]: Invalid value: "x": must be "latest" or "v1.x"'
    )


async def test_defaults_and_exemptions(env: Env) -> None:
    options = ServerOptions(
        pod_security=PodSecurityOptions(
            defaults=Policy(enforce=LevelVersion("baseline")),
            exempt_namespaces=frozenset({"free"}),
            exempt_runtime_classes=frozenset({"sandbox"}),
        )
    )
    api = Api(env, options)
    freed = await namespace(api, "free", enforce="restricted", audit_version="v1.3", audit="baseline")
    await namespace(api)
    await api.create("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "sandbox"}, "handler": "x"})
    free = "/api/v1/namespaces/free/pods"
    answers = [
        await api.post(free, pod(hostPID=True)),
        await api.post(IN_N, pod(hostPID=True)),
        await api.post(IN_N, pod(hostPID=True, runtimeClassName="sandbox")),
    ]
    codes = [answer.status for answer in answers]
    warning = warnings(freed)
    assert codes == [201, 403, 201]
    assert warning == (
        r'299 - "namespace \"free\" is exempt from Pod Security, and the policy (enforce=restricted:latest, '
        r'audit=baseline:v1.3) will be ignored"'
    )
