"""The message of a failed expression has the values of the fields that it reads."""

from typing import Any

from tests.tables import cases

from pilothouse.simulate.expressions import Expression
from pilothouse.simulate.field_values import MOST_VALUES

_OBJECTS: dict[str, dict[str, Any]] = {
    "deployments": {
        "default/web": {
            "metadata": {"labels": {"example.com/tier": "a", "long": "x" * 200}},
            "spec": {"replicas": 3, "paused": False},
            "status": {"conditions": [{"type": "Available", "status": "True"}]},
        }
    },
    "pods": {"default/a": {}, "default/b": {}},
}


class _Observed:
    def of(self, name: str) -> dict[str, Any]:
        return _OBJECTS[name]


@cases(
    "source, expected",
    {
        "a number": ("objects.deployments['default/web'].spec.replicas == 4", ["D.spec.replicas is 3"]),
        "each field once, in order": (
            "D.spec.paused || D.spec.replicas > 3 || D.spec.replicas < 1",
            ["D.spec.paused is false", "D.spec.replicas is 3"],
        ),
        "missing field": ("D.status.readyReplicas == 3", ["D.status.readyReplicas is not set"]),
        "optional field": ("D.status.?readyReplicas.orValue(0) == 3", ["D.status.readyReplicas is not set"]),
        "has": ("has(D.status.readyReplicas)", ["D.status.readyReplicas is not set"]),
        "missing object": (
            "objects.deployments['default/wep'].spec.replicas == 3",
            ["objects.deployments['default/wep'].spec.replicas is not set"],
        ),
        "key that is no identifier, and a long value": (
            "D.metadata.labels['example.com/tier'] == D.metadata.labels.long",
            [
                "D.metadata.labels['example.com/tier'] is \"a\"",
                f'D.metadata.labels.long is "{"x" * 99}…',
            ],
        ),
        "index": ("D.status.conditions[0].type == 'x'", ['D.status.conditions[0].type is "Available"']),
        "sizes": (
            "objects.pods.size() == 3 && size(D.status.conditions) == 2",
            ["objects.pods.size() is 2", "D.status.conditions.size() is 1"],
        ),
        "macro": ("objects.pods.exists(p, objects.pods[p].spec.nodeName == 'a')", []),
        "whether an object exists": ("'default/web' in objects.deployments", []),
        "at most some": (" && ".join(f"D.spec.f{n}" for n in range(20)), MOST_VALUES),
    },
)
def test_values(source: str, expected: list[str] | int) -> None:
    web = "objects.deployments['default/web']"
    values = Expression(source.replace("D.", f"{web}.")).values(_Observed())  # type: ignore[arg-type]
    if isinstance(expected, int):
        assert len(values) == expected
    else:
        assert values == [line.replace("D.", f"{web}.", 1) for line in expected]


def test_values_of_the_object_of_a_rule_about_each() -> None:
    expression = Expression("object.spec.replicas == 4 && key != ''", for_each="deployments")
    assert expression.values(_Observed(), _OBJECTS["deployments"]["default/web"]) == ["object.spec.replicas is 3"]  # type: ignore[arg-type]
    assert expression.values(_Observed()) == [], "which object is not known"  # type: ignore[arg-type]
