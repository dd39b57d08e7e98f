"""Claims that are not bound, and one that can't be deleted."""

from typing import Any

from tests.why.catalogue.expectations import assert_explains
from tests.why.catalogue.scenario import ADMIN, Scenario, quick_pod


def _claim(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec},
    }


def _user() -> dict[str, Any]:
    spec = quick_pod(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user"}, "spec": spec}


def test_missing_class(scenario: Scenario) -> None:
    scenario.apply(_claim(storageClassName="none-such"))
    explanation = scenario.why("pvc/data")
    assert explanation.state == "pending"
    assert explanation.steps[0].text.endswith("has the StorageClass none-such, which does not exist")
    assert explanation.steps[0].because[0].by == f"{ADMIN} apply"


def test_no_volume_of_its_size(scenario: Scenario) -> None:
    volume = f"{scenario.namespace}-small"
    spec = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "hostPath": {"path": "/x"},
    }
    scenario.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": spec})
    scenario.until(
        lambda: (scenario.get("persistentvolumes", volume) or {}).get("status", {}).get("phase") == "Available",
        "a volume",
    )
    scenario.apply(_claim(storageClassName=""))
    table = [line for step in scenario.why("pvc/data").steps for line in step.table]
    assert f"{volume}: it has 1Mi, and 1Gi are asked for" in table
    scenario("delete", "pv", volume)


def test_a_claim_in_use(scenario: Scenario) -> None:
    scenario.apply(_claim(), _user())
    scenario.until_ready(1)
    scenario("delete", "pvc", "data", "--wait=false")
    assert_explains(
        scenario.why("pvc/data"),
        "terminating",
        "persistentvolumeclaim/data < pod/user [state]",
        f"persistentvolumeclaim/data by {ADMIN} delete* [user]",
    )
