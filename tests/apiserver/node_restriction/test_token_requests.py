"""TokenRequests of nodes: kubernetes ``plugin/pkg/admission/noderestriction/admission_test.go`` (v1.36),
``Test_nodePlugin_Admit``, with the gate ServiceAccountNodeAudienceRestriction at its default."""

from typing import Any

import pytest
from tests.apiserver.api import Object
from tests.apiserver.node_restriction.writes import EXISTING, Decides, Stored, admit, expect, make_pod
from tests.tables import cases

from pilothouse.apiserver.authorization.authorizer import Attributes

DRIVER, AZURE = "com.example.csi.mydriver", "file.csi.azure.com"
FOO = ("foo",)
DRIVERS: tuple[Stored, ...] = tuple(
    ("csidrivers", {"metadata": {"name": name}, "spec": {"tokenRequests": [{"audience": "foo"}]}})
    for name in (DRIVER, AZURE)
)
CLAIMS: tuple[Stored, ...] = tuple(
    ("persistentvolumeclaims", {"metadata": {"name": name, "namespace": "ns"}, "spec": {"volumeName": volume}})
    for name, volume in (
        ("pvclaim", "pvname"),
        ("pvclaim-azurefile", "pvname-azurefile"),
        ("myephemeralpod-myvol", "pvname"),
    )
)
AZURE_FILE = {"shareName": "default", "secretName": "secret"}
VOLUMES: tuple[Stored, ...] = (
    ("persistentvolumes", {"metadata": {"name": "pvname"}, "spec": {"csi": {"driver": DRIVER}}}),
    ("persistentvolumes", {"metadata": {"name": "pvname-azurefile"}, "spec": {"azureFile": AZURE_FILE}}),
)
CSI, CLAIM = {"csi": {"driver": DRIVER}}, {"persistentVolumeClaim": {"claimName": "pvclaim"}}


def projected(*audiences: str) -> Object:
    sources = [{"serviceAccountToken": {"audience": audience} if audience else {}} for audience in audiences]
    return {"projected": {"sources": sources}}


def with_volumes(name: str, *volumes: Object) -> Object:
    return make_pod(name, volumes=[{"name": "myvol", **volume} for volume in volumes])


PODS = [
    with_volumes("mysapod", projected("foo")),
    with_volumes("noaudience", projected("")),
    with_volumes("mycsipod", CSI),
    with_volumes("mypvcpod", CLAIM),
    with_volumes("myephemeralpod", {"ephemeral": {"volumeClaimTemplate": {}}}),
    with_volumes("mypvcandcsipod", CLAIM, CSI),
    with_volumes("myintreeinlinevoltocsipod", {"azureFile": AZURE_FILE}),
    with_volumes("myintreepvtocsipod", {"persistentVolumeClaim": {"claimName": "pvclaim-azurefile"}}),
]
STORED: tuple[Stored, ...] = (*EXISTING, *(("pods", pod) for pod in PODS))
ALL = (*STORED, *DRIVERS, *CLAIMS, *VOLUMES)


def token_request(pod: str, audiences: tuple[str, ...] = FOO, *, uid: str = "pod-uid", **ref: str) -> Object:
    spec: Object = {"audiences": list(audiences)} if audiences else {}
    if pod:
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod, **({"uid": uid} if uid else {}), **ref}
        spec["boundObjectRef"] = bound
    return {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": spec}


def admit_request(request: Object, existing: Any = ALL, **more: Any) -> Any:
    return admit("CREATE", "serviceaccounts/token", request, name="mysa", namespace="ns", existing=existing, **more)


@cases(
    "request_, words",
    {
        "unbound": (token_request(""), "node requested token not bound to a pod"),
        "bound to a secret": (token_request("mypod", kind="Secret"), "not bound to a pod"),
        "missing pod": (token_request("nopod"), 'pod "nopod" not found'),
        "pod without uid": (token_request("mypod", uid=""), "token with a pod binding without a uid"),
        "pod with another uid": (
            token_request("mypod", uid="u2"),
            "the UID in the bound object reference (u2) does not match the UID in record. The object might have been "
            "deleted and then recreated",
        ),
        "another node's pod": (token_request("otherpod"), "bound to a pod scheduled on a different node"),
        "several audiences": (token_request("mysapod", ("foo", "bar")), "node may only request 0 or 1 audiences"),
        "audience of a projected volume": (token_request("mysapod"), ""),
        "the API server's audience": (token_request("noaudience", ()), ""),
    },
)
def test_token_binding(request_: Object, words: str) -> None:
    expect(admit_request(request_), words)


def unauthorized(audience: str) -> str:
    return (
        f'serviceaccounts "mysa" is forbidden: audience "{audience}" not found in pod spec volume, system:node:mynode '
        "is not authorized to request tokens for this audience"
    )


def attributes_of(audience: str) -> Attributes:
    verb = "request-serviceaccounts-token-audience"
    return Attributes(verb, "", "v1", audience, namespace="ns", name="mysa")


@cases(
    "pod, audience, existing, words",
    {
        "no volume with the audience": ("mypod", "foo", ALL, unauthorized("foo")),
        "csi driver": ("mycsipod", "foo", ALL, ""),
        "csi driver with another audience": ("mycsipod", "bar", ALL, unauthorized("bar")),
        "csi driver not found": (
            "mycsipod",
            "foo",
            STORED,
            f'error validating audience "foo": csidriver.storage.k8s.io "{DRIVER}" not found',
        ),
        "claim, volume, driver": ("mypvcpod", "foo", ALL, ""),
        "claim, volume, driver with another audience": ("mypvcpod", "bar", ALL, unauthorized("bar")),
        "claim not found": (
            "mypvcpod",
            "foo",
            (*STORED, *DRIVERS, *VOLUMES),
            'error validating audience "foo": persistentvolumeclaim "pvclaim" not found',
        ),
        "volume not found": (
            "mypvcpod",
            "foo",
            (*STORED, *DRIVERS, *CLAIMS),
            'error validating audience "foo": persistentvolume "pvname" not found',
        ),
        "ephemeral volume": ("myephemeralpod", "foo", ALL, ""),
        "ephemeral volume, another audience": ("myephemeralpod", "bar", ALL, unauthorized("bar")),
        "missing claim, inline volume of the driver": ("mypvcandcsipod", "foo", (*STORED, *DRIVERS), ""),
        "missing volume, inline volume of the driver": ("mypvcandcsipod", "foo", (*STORED, *DRIVERS, *CLAIMS), ""),
        "missing claim and driver": (
            "mypvcandcsipod",
            "foo",
            STORED,
            'error validating audience "foo": [persistentvolumeclaim "pvclaim" not found, csidriver.storage.k8s.io '
            f'"{DRIVER}" not found]',
        ),
        "persistent volume of a migrated plugin": ("myintreepvtocsipod", "foo", ALL, ""),
        "inline volume of a migrated plugin": ("myintreeinlinevoltocsipod", "foo", ALL, ""),
    },
)
def test_token_audience(pod: str, audience: str, existing: Any, words: str) -> None:
    decides = Decides(attributes_of(audience), allowed=False)
    expect(admit_request(token_request(pod, (audience,)), existing, authorizer=decides), words)


@pytest.mark.parametrize(("allowed", "words"), [(True, ""), (False, unauthorized("foo"))])
def test_audiences_allowed_by_roles(allowed: bool, words: str) -> None:
    expect(
        admit_request(token_request("mypod"), STORED, authorizer=Decides(attributes_of("foo"), allowed=allowed)), words
    )


def test_service_accounts_are_not_restricted() -> None:
    account = {"metadata": {"name": "mysa", "namespace": "ns"}}
    expect(admit("CREATE", "serviceaccounts", account), "")
    expect(admit("DELETE", "serviceaccounts", None, account), "")
