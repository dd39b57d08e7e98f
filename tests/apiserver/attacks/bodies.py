"""Attacks through request bodies."""

import base64
import itertools
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.apiserver.attacks.attacked_plane import Attack, AttackedPlane
from tests.custom_resources import definition, version


def _deep_json(plane: AttackedPlane) -> None:
    depth = 100_000
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":' + b"[" * depth + b"]" * depth + b"}"
    answer = plane.as_user("POST", "/api/v1/namespaces/default/configmaps", body)
    assert answer.status == 400, json.dumps(answer.json)


REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
_numbers = itertools.count(1)


def _flat_yaml(plane: AttackedPlane) -> None:
    """Requests of any authenticated user."""
    body = b"".join(b"key%d: a value of some length\n" % number for number in range(90_000))
    with ThreadPoolExecutor(3) as senders:
        pending_requests = [
            senders.submit(plane.as_user, "POST", REVIEWS, body, content_type="application/yaml") for _ in range(3)
        ]
    assert {answer.result().status for answer in pending_requests} <= {422, 429}


def _yaml_of_short_values(plane: AttackedPlane) -> None:
    for body in (b"[" + b"a," * 1_500_000 + b"]", b"- a\n" * 700_000, b"? " * 1_000_000, b"[" * 1_000_000):
        assert plane.as_user("POST", REVIEWS, body, content_type="application/yaml").status == 400


def _yaml_aliases(plane: AttackedPlane) -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 12)]
    for text in ("\n".join(lines), f"a: &a {'x' * 2_000_000}\nb: [{','.join(['*a'] * 1000)}]"):
        assert plane.as_user("POST", REVIEWS, text.encode(), content_type="application/yaml").status == 400


def _unknown_fields(plane: AttackedPlane) -> None:
    body = b"{" + b",".join(b'"key%d":1' % number for number in range(200_000)) + b"}"
    assert plane.as_user("POST", REVIEWS, body).status == 422


def _lists_in_lists(plane: AttackedPlane) -> None:
    for count in (120_000, 500_000):
        body = b'{"spec":[' + b",".join([b"[[]]"] * count) + b"]}"
        assert plane.as_user("POST", REVIEWS, body).status == 400


def _created(plane: AttackedPlane, target: str, obj: dict[str, Any]) -> str:
    """Create an object as administrator; returns its path."""
    name = f"body-{next(_numbers)}"
    created = plane.as_admin("POST", target, {**obj, "metadata": {"name": name, **obj.get("metadata", {})}})
    assert created.status == 201, created.body
    return f"{target}/{name}"


def _containers(count: int) -> list[dict[str, str]]:
    return [{"name": f"c{number}", "image": "i"} for number in range(count)]


def _containers_merged(plane: AttackedPlane) -> None:
    pod = _created(plane, PODS, {"spec": {"nodeName": "elsewhere", "containers": _containers(1)}})
    patch = {
        "spec": {"containers": [{**container, "name": f"new-{container['name']}"} for container in _containers(20_000)]}
    }
    assert plane.as_user("PATCH", pod, patch, content_type=STRATEGIC).status == 422


def _finalizers_merged(plane: AttackedPlane) -> None:
    first, second = ([f"example.{end}/{number}" for number in range(15_000)] for end in ("com", "org"))
    existing = _created(plane, CONFIG_MAPS, {"metadata": {"finalizers": first}})
    more = [f"example.org/{number}" for number in range(50_000)]
    for name, values in (("finalizers", second), ("$deleteFromPrimitiveList/finalizers", more)):
        patch = {"metadata": {name: values}}
        assert plane.as_user("PATCH", existing, patch, content_type=STRATEGIC).status == 200
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"finalizers": second}}
    assert plane.as_user("PATCH", f"{existing}?fieldManager=a", config, content_type=APPLY).status == 200
    assert plane.as_admin(
        "PATCH", existing, [{"op": "remove", "path": "/metadata/finalizers"}], content_type=JSON_PATCH
    )
    plane.as_admin("DELETE", existing)


def _owners(plane: AttackedPlane) -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": f"p{n}", "uid": f"u{n}"} for n in range(8_000)]
    meta = {"name": f"owned-{next(_numbers)}", "ownerReferences": owners}
    created = plane.as_user("POST", CONFIG_MAPS, {"metadata": meta})
    assert created.status == 201


def _operations(plane: AttackedPlane) -> None:
    existing = _created(plane, CONFIG_MAPS, {"data": {f"key{number}": "" for number in range(50_000)}})
    patch = [{"op": "add", "path": f"/data/new{number}", "value": ""} for number in range(10_000)]
    patched = plane.as_user("PATCH", existing, patch, content_type=JSON_PATCH)
    # etcd takes 1.5 MiB.
    assert patched.status == 200 or b"etcdserver: request is too large" in patched.body
    plane.as_admin("DELETE", existing)


POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_DOUBLED = "[object.data.text].all(a, [a + a].all(b, [b + b].all(c, [c + c].all(d, d.size() > 0))))"
EXPENSIVE = (
    "!object.data.text.matches('(a{1,100}b?){1,10}c')",
    "object.data.all(k, object.data.all(l, !object.data.text.contains(object.data.other)))",
    "object.data.map(k, object.data).size() > 0",
    f"object.data.all(k, {_DOUBLED})",
    "object.data.text.findAll('a').size() > 0",
    "object.data.text.replace('', object.data.other).size() > 0",
)


def _expensive_policies(plane: AttackedPlane) -> None:
    """A policy that a user may create for their namespace, with expensive expressions."""
    text = {"text": "a" * 400_000, "other": "a" * 10_000 + "b", **{f"key{number}": "" for number in range(2_000)}}
    for number, expression in enumerate(EXPENSIVE):
        name, label = f"expensive-{number}", {"expensive": str(number)}
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        constraints = {"resourceRules": [rule], "objectSelector": {"matchLabels": label}}
        policy = {"matchConstraints": constraints, "validations": [{"expression": expression}]}
        created = plane.as_user("POST", POLICIES, {"metadata": {"name": name}, "spec": policy})
        assert created.status == 201, created.body
        bound = {"policyName": name, "validationActions": ["Deny"]}
        created = plane.as_user("POST", BINDINGS, {"metadata": {"name": name}, "spec": bound})
        assert created.status == 201, created.body
        config_map = {"metadata": {"name": name, "labels": label}, "data": text}
        answer = plane.as_user("POST", CONFIG_MAPS, config_map)
        assert answer.status in (201, 422), answer.body
        if number == 0:
            assert "actual cost limit exceeded" in answer.json["message"]


LONG = f"[{','.join(['1'] * 44_900)}].size() == 44900"
"""90,000 characters; 100,000 may be compiled."""
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _long_policies(plane: AttackedPlane) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    constraints = {"resourceRules": [rule], "objectSelector": {"matchLabels": {"long": "true"}}}
    policy = {
        "matchConstraints": constraints,
        "matchConditions": [{"name": "long", "expression": LONG}],
        "variables": [{"name": "long", "expression": LONG}],
        "validations": [{"expression": LONG}, {"expression": "variables.long"}],
    }
    wrong = {"matchConstraints": constraints, "validations": [{"expression": " + ".join(["nobody"] * 10_000)}]}
    assert plane.as_user("POST", POLICIES, {"metadata": {"name": "wrong"}, "spec": wrong}).status == 422
    created = plane.as_user("POST", POLICIES, {"metadata": {"name": "long"}, "spec": policy})
    assert created.status == 201, created.body
    bound = {"policyName": "long", "validationActions": ["Deny"]}
    created = plane.as_user("POST", BINDINGS, {"metadata": {"name": "long"}, "spec": bound})
    assert created.status == 201, created.body
    for number in range(3):
        config_map = {"metadata": {"name": f"long-{number}", "labels": {"long": "true"}}}
        answer = plane.as_user("POST", CONFIG_MAPS, config_map)
        assert answer.status == 201, answer.body
    for _ in range(200):  # the controller checks it against the type
        stored = plane.as_admin("GET", f"{POLICIES}/long").json
        if (stored.get("status") or {}).get("observedGeneration") == 1:
            break
        time.sleep(0.1)
    else:
        raise AssertionError("nobody has checked the types")


def _long_match_conditions(plane: AttackedPlane) -> None:
    webhook = {
        "name": "long.example.com",
        "clientConfig": {"url": "https://localhost:1/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "objectSelector": {"matchLabels": {"asked": "true"}},
        "matchConditions": [{"name": "long", "expression": f"!({LONG})"}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    created = plane.as_admin("POST", VALIDATING, {"metadata": {"name": "long"}, "webhooks": [webhook]})
    assert created.status == 201, created.body
    for number in range(2):
        config_map = {"metadata": {"name": f"asked-{number}", "labels": {"asked": "true"}}}
        assert plane.as_user("POST", CONFIG_MAPS, config_map).status == 201


def _long_rules(plane: AttackedPlane) -> None:
    rules = [{"rule": LONG, "messageExpression": f"string({LONG})"}]
    schema = {"type": "object", "x-kubernetes-validations": rules, "properties": {"a": {"type": "string"}}}
    longs = definition("Long", version(schema=schema), group="long.example.com")
    created = plane.as_admin("POST", DEFINITIONS, longs)
    assert created.status == 201, created.body
    target = "/apis/long.example.com/v1/namespaces/default/longs"
    for number in range(3):
        body = {"apiVersion": "long.example.com/v1", "kind": "Long", "metadata": {"name": f"l{number}"}, "a": "b"}
        for _ in range(100):
            answer = plane.as_admin("POST", target, body)
            if answer.status != 404:
                break
            time.sleep(0.1)
        assert answer.status == 201, answer.body


def _many_variables(plane: AttackedPlane) -> None:
    """Each variable may refer to previous ones."""
    for count in (700, 12_000):
        variables = [{"name": f"v{number}", "expression": "1"} for number in range(count)]
        spec = {"matchConstraints": {}, "variables": variables, "validations": [{"expression": "variables.v1 == 1"}]}
        assert plane.as_user("POST", POLICIES, {"metadata": {"name": f"many-{count}"}, "spec": spec}).status == 422


def _blocks_without_end(plane: AttackedPlane) -> None:
    """PEM without an END, in requests of users who may write Secrets or requests for certificates."""
    data = base64.b64encode(b"-----BEGIN a-----\n" * 40_000).decode()
    secret = {"metadata": {"name": "pem"}, "type": "kubernetes.io/tls", "data": {"tls.crt": data, "tls.key": ""}}
    assert plane.as_user("POST", "/api/v1/namespaces/default/secrets", secret).status == 201
    spec = {"request": data, "signerName": "example.com/a", "usages": ["any"]}
    signing = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    assert plane.as_user("POST", signing, {"metadata": {"name": "pem"}, "spec": spec}).status == 422


def _long_schedules(plane: AttackedPlane) -> None:
    """Schedules are parsed with each sync of a CronJob."""
    pod_spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    spec = {
        "schedule": ",".join(["*/1"] * 200_000) + " * * * *",
        "jobTemplate": {"spec": {"template": {"spec": pod_spec}}},
    }
    for number in range(3):
        cron_job = {"metadata": {"name": f"long-{number}"}, "spec": spec}
        assert plane.as_user("POST", "/apis/batch/v1/namespaces/default/cronjobs", cron_job).status == 422


ATTACKS = [
    Attack("JSON nested 100,000 deep", _deep_json),
    Attack("three times three megabytes of flat YAML", _flat_yaml),
    Attack("YAML of a million short values", _yaml_of_short_values),
    Attack("YAML of aliases of aliases", _yaml_aliases),
    Attack("three megabytes of fields that nobody knows", _unknown_fields),
    Attack("three megabytes of lists", _lists_in_lists),
    Attack("a strategic merge of 20,000 containers", _containers_merged),
    Attack("15,000 finalizers merged, and 50,000 deleted", _finalizers_merged),
    Attack("8,000 owner references", _owners),
    Attack("10,000 operations on a large object", _operations),
    Attack("policies that would take minutes", _expensive_policies),
    Attack("policies of 90,000 characters", _long_policies),
    Attack("match conditions of 90,000 characters", _long_match_conditions),
    Attack("rules of 90,000 characters", _long_rules),
    Attack("policies of 12,000 variables", _many_variables),
    Attack("PEM blocks without an end", _blocks_without_end),
    Attack("schedules of 200,000 items", _long_schedules),
]
