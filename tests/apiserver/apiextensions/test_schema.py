"""Values that are validated by structural schemas: errors of kube-apiserver v1.36.2."""

from typing import Any

from tests.tables import cases

from pilothouse.apiserver.apiextensions.schema import validate

NUMBER = {"type": "number"}


@cases(
    "value, node, expected",
    {
        "an integer, and a bound with a fraction": (0, {**NUMBER, "minimum": 0.5}, []),
        "a number, and a bound with a fraction": (
            0.25,
            {**NUMBER, "minimum": 0.5},
            ["v: Invalid value: 0.25: v in body should be greater than or equal to 0.5"],
        ),
        "a whole number": (
            1.0,
            {**NUMBER, "multipleOf": 5},
            ["v: Invalid value: 1: v in body should be a multiple of 5"],
        ),
        "a large number": (
            1e30,
            {**NUMBER, "maximum": 100},
            ["v: Invalid value: 1e+30: v in body should be less than or equal to 100"],
        ),
        "an integer, and a factor with a fraction": (
            1,
            {**NUMBER, "multipleOf": 0.5},
            ["v: Invalid value: 0: factor MultipleOf declared for v must be positive: 0"],
        ),
        "a number with a fraction in an enum of integers": (2.5, {**NUMBER, "enum": [1, 2, 5]}, []),
        "a number that is not in the enum": (
            3.5,
            {**NUMBER, "enum": [1, 2, 5]},
            ['v: Unsupported value: 3.5: supported values: "1", "2", "5"'],
        ),
    },
)
def test_numbers(value: Any, node: dict[str, Any], expected: list[str]) -> None:
    assert [str(error) for error in validate(value, node, "v")] == expected


def test_errors_of_the_root() -> None:
    schema = {"type": "object", "maxProperties": 1, "minProperties": 3}
    assert [str(error) for error in validate({"kind": "A", "apiVersion": "b/v1"}, schema)] == [
        "<nil>: Invalid value: 2:  in body should have at least 3 properties",
        "<nil>: Too many: 2: must have at most 1 item",
    ]
