"""15b-namespace-defaults, replayed: default objects of a namespace are created and recreated."""

from tests.traces.canonical import Trace, assert_same
from tests.traces.kubectl_user import OPTIONS, KubectlUser, replay
from tests.traces.records import recorded

from pilothouse.controllermanager.root_authority import with_ca_bundle

SCENARIO = "15b-namespace-defaults"
USERS = ("root-ca-cert-publisher", "service-account-controller")


async def steps(user: KubectlUser) -> None:
    """The namespace exists when the recording starts; so it is recreated."""
    await user.request("POST", "api/v1/namespaces", {"metadata": {"name": SCENARIO}})
    await user.at(2.707)
    await user.request("DELETE", f"api/v1/namespaces/{SCENARIO}/serviceaccounts/default")
    await user.at(5.459)
    await user.request("DELETE", f"api/v1/namespaces/{SCENARIO}/configmaps/kube-root-ca.crt")
    await user.at(8.196)
    changed, merge = {"data": {"ca.crt": "x"}}, "application/merge-patch+json"
    await user.request("PATCH", f"api/v1/namespaces/{SCENARIO}/configmaps/kube-root-ca.crt", changed, merge)
    await user.at(12.0)


def test_namespace_gets_service_account_and_root_ca_as_recorded(seed: int) -> None:
    latency = (0.001, 0.004) if seed else None
    server = replay("other", steps, seed=seed, latency=latency, options=with_ca_bundle(OPTIONS, b"CERT"))
    actual, expected = Trace(server.records), Trace(recorded(SCENARIO))
    for user in USERS:
        assert_same(actual.lines(actual.of(user)), expected.lines(expected.of(user)))
