"""YAML as sigs.k8s.io/yaml writes it: block style, sorted keys, and go-yaml's choice of quotes."""

import re
from functools import cache
from typing import Any

from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    import yaml

_STRING = "tag:yaml.org,2002:str"
_NOT_STRINGS = re.compile(r"[yYnN]|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?0o[0-7]+").fullmatch
"""Booleans and numbers of go-yaml that are strings to PyYAML."""


def to_yaml(document: Any) -> bytes:
    """A decoded JSON document as YAML."""
    text: str = yaml.dump(document, Dumper=_dumper(), default_flow_style=False, allow_unicode=True)
    return text.removesuffix("...\n").encode()


@cache
def _dumper() -> Any:
    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc]  # one of two classes
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent(dumper: Any, text: str) -> Any:
        """go-yaml's ``stringv``: literal for several lines, quoted if it would not be read as a string."""
        style = None
        if "\n" in text:
            style = "|"
        elif _NOT_STRINGS(text) or dumper.resolve(yaml.ScalarNode, text, (True, False)) != _STRING:
            style = '"'
        return dumper.represent_scalar(_STRING, text, style=style)

    Dumper.add_representer(str, represent)
    return Dumper
