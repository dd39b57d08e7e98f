"""Names that begin with the domain of who gives them: ``example.com/anything``.

After ``IsDomainPrefixedPath`` in apimachinery's ``pkg/util/validation/validation.go`` (v0.36).
"""

import re

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.machinery.names import dns_subdomain_errors

_FORMAT = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_PATH = re.compile(_FORMAT)
_WRONG_PATH = f"Invalid path (regex used for validation is '{_FORMAT}')"


def domain_path_problems(value: str, path: str) -> list[FieldError]:
    """What is wrong with a name that must be a domain, a slash and more."""
    if not value:
        return [errors.required(path)]
    domain, _slash, rest = value.partition("/")
    if not domain or not rest:
        return [errors.invalid_value(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    problems = [errors.invalid_value(path, domain, text) for text in dns_subdomain_errors(domain)]
    if not _PATH.fullmatch(rest):
        problems.append(errors.invalid_value(path, rest, _WRONG_PATH))
    return problems
