"""YAML equals what kube-apiserver v1.36.2 writes for the same document."""

from tests.tables import cases

from pilothouse.apiserver.serializers.yaml_text import to_yaml


@cases(
    "value, text",
    {
        "a word": ("abc", "abc"),
        "several words": ("x #y", "'x #y'"),
        "an indicator": ("- x", "'- x'"),
        "a time": ("2026-01-02T03:04:05Z", '"2026-01-02T03:04:05Z"'),
        "a number": ("12", '"12"'),
        "a number with an exponent": ("1e3", '"1e3"'),
        "an octal number": ("0o7", '"0o7"'),
        "a boolean": ("true", '"true"'),
        "an old boolean": ("off", '"off"'),
        "a boolean of one letter": ("y", '"y"'),
        "empty": ("", '""'),
        "lines": ("a\nb\n", "|\n  a\n  b"),
        "lines without an end": ("a\nb", "|-\n  a\n  b"),
        "a character that is not printed": ("\x01", '"\\x01"'),
    },
)
def test_strings(value: str, text: str) -> None:
    assert to_yaml({"k": value}).decode() == f"k: {text}\n"


def test_equal_parts_are_repeated() -> None:
    part = ["a"]
    assert to_yaml({"b": part, "a": part}) == b"a:\n- a\nb:\n- a\n"
