"""Expressions: the language, Kubernetes' functions, types from schemas, and error messages."""

import re
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.cel.authorizers import AUTHORIZER, asking
from pilothouse.cel.environment import CompileError, Environment
from pilothouse.cel.limits import COST_EXCEEDED, EvaluationError
from pilothouse.cel.schemas import Types, converter, escape

DYNAMIC = Environment(
    {"self": "dyn", "oldSelf": "dyn", "authorizer": "kubernetes.authorization.Authorizer"}, optional="oldSelf"
)
OBJECT: dict[str, Any] = {"list": [1, 2, 3], "null": None, "map": {"a": 1}, "double": 1.5, "text": "abc 12"}


def value_of(expression: str, **more: Any) -> Any:
    return DYNAMIC.compile(expression).evaluate({"self": OBJECT, "authorizer": AUTHORIZER, **more})


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("self.list.all(x, x > 0) && self.list.exists_one(x, x == 2)", True),
        ("self.list.filter(x, x > 1).map(x, x * 2)", [4, 6]),
        ("self.map.all(key, value, value == 1)", True),
        ("has(self.map.a) && !has(self.map.b)", True),
        ("self.?missing.orValue(7)", 7),
        ("self['null']", None),
        ("1 < 1.5 && 2u > 1 && self.list[0] < self.double", True),
        ("self.list[0] == 1.0", True),
        ("'a,b'.split(',')", ["a", "b"]),
        ("'%s is %d'.format(['x', 3])", "x is 3"),
        ("self.text.matches('^[a-z]+ [0-9]+$')", True),
        ("self.text.find('[0-9]+')", "12"),
        ("'a1b2'.findAll('[0-9]', 1)", ["1"]),
        ("duration('90m') > duration('1h')", True),
        ("timestamp('2026-01-01T00:00:00Z').getFullYear()", 2026),
        ("self.list.isSorted() && self.list.sum() == 6 && self.list.max() == 3", True),
        ("self.list.indexOf(2)", 1),
        ("self.list.reverse()", [3, 2, 1]),
        ("self.list.sortBy(x, x % 3)", [3, 1, 2]),
        ("['b', 'a', 'b'].distinct().sort()", ["a", "b"]),
        ("[[[1]], [[2]]].flatten()", [[1], [2]]),
        ("[[[1]], [[2]]].flatten(2) == lists.range(3).slice(1, 3)", True),
        ("lists.range(0).sort()", []),
        ("[dyn({'a': 2}), dyn({'a': 1})].sortBy(x, x.a)[0].a", 1),
        ("'abca'.lastIndexOf('a')", 3),
        ("sets.contains(self.list, [1, 2])", True),
        ("quantity('1Gi') == quantity('1024Mi')", True),
        ("quantity('1').add(2).compareTo(quantity('2500m'))", 1),
        ("quantity('1500m').isInteger() || !isQuantity('x')", True),
        ("quantity('2k').asInteger()", 2000),
        ("sign(quantity('-2'))", -1),
        ("quantity('1e999999999').isInteger()", False),
        ("quantity('1e999999999').asApproximateFloat() > 1.0", True),
        ("semver('1.2.3').isLessThan(semver('v1.10', true))", True),
        ("semver('1.0.0-rc.1').compareTo(semver('1.0.0'))", -1),
        ("ip('::1').isLoopback() && ip('10.0.0.1').family() == 4 && !isIP('10.0.0')", True),
        ("ip.isCanonical('2001:DB8::1')", False),
        ("string(cidr('10.1.2.3/8').masked())", "10.0.0.0/8"),
        ("cidr('10.0.0.0/8').containsIP('10.1.1.1') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", True),
        ("url('https://user@[::1]:80/a b?c=d'.replace(' ', '%20')).getHost()", "[::1]:80"),
        ("url('https://example.com/p?c=d&c=e').getQuery()", {"c": ["d", "e"]}),
        ("format.dns1123Label().validate('A_b').value().size() > 0", True),
        ("!format.dns1123Label().validate(self.text.substring(0, 3) + ')').hasValue()", False),
        ("!format.uuid().validate('a8098c1a-f86e-11da-bd1a-00112444be1e').hasValue()", True),
        ("format.named('uuid').hasValue()", True),
        ("format.named('nope').hasValue()", False),
        ("format.named('uu' + 'id').value() == format.uuid()", True),
        ("format.named('dns1123Label').value().validate('a-b') == optional.none()", True),
        ("format.named('dns1123Label').value().validate('A_b').orValue([]).size()", 1),
        ("format.named('nope').orValue(format.date()).validate('2020-13-40').orValue([])", ["invalid date"]),
        ("['date', 'uuid'].map(n, format.named(n).value()).exists(f, !f.validate('2026-01-02').hasValue())", True),
        ("'format.named(x).validate(y)'", "format.named(x).validate(y)"),
        ("'format.uuid().validate(x)'", "format.uuid().validate(x)"),
        ("isURL('/path') && !isURL('no url')", True),
        ("url('ftp://h:21/a%2Fb#frag').getEscapedPath()", "/a%2Fb"),
        ("url('/a b').getEscapedPath()", "/a%20b"),
        ("{'a': 1, 'b': -1}.transformMap(k, v, v > 0, [v + 1])", {"a": [2]}),
        ("self.list.transformMapEntry(i, v, {string(i): {'v': v}})['1'].v", 2),
    ],
)  # fmt: skip
def test_expressions_have_upstreams_values(expression: str, expected: object) -> None:
    assert value_of(expression) == expected


@cases(
    "expression, message",
    {
        "a missing key": ("self.missing == 1", "no such key: missing"),
        "an index past the end": ("self.list[9]", "index out of bounds: 9"),
        "a division by zero": ("1 / (self.list[0] - 1)", "division by zero"),
        "incompatible types": ("self.list + 1", "no such overload"),
        "a slice past the end": ("self.list.slice(0, 4)", "cannot slice(0, 4), list is length 3"),
        "a negative level": ("[[1]].flatten(-1)", "level must be non-negative"),
        "a sort of numbers and texts": ("[dyn(1), dyn('a')].sort()", "list elements must have the same type"),
        "a sort of lists": ("[dyn([1])].sort()", "list elements must be comparable"),
        "a function that refuses": ("quantity('x')", "quantities must match the regular expression"),
        "no number": ("int(self.text)", "type conversion error from 'string' to 'int'"),
        "no time": ("timestamp(self.text)", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        "a negative uint": ("uint(-self.list[0])", "unsigned integer overflow"),
        "a version with a v": ("semver('v1.2.3')", 'Invalid character(s) found in major number "v1"'),
        "a version with a zero": ("semver('1.02.3')", 'Minor number must not contain leading zeroes "02"'),
        "an empty prerelease": ("semver('1.2.3-')", "Prerelease is empty"),
        "an address with a zero": (
            "ip('01.2.3.4')",
            'IP Address "01.2.3.4" parse error during conversion from string: ParseAddr("01.2.3.4"): IPv4 field has '
            "octet with leading zero",
        ),
        "no address": ("ip('x')", 'conversion from string: ParseAddr("x"): unable to parse IP'),
        "an address with a letter": ("ip('1.a')", 'ParseAddr("1.a"): unexpected character (at "a")'),
        "a long prefix": (
            "cidr('10.0.0.0/33')",
            "network address parse error during conversion from string: network address parse error during conversion "
            'from string: netip.ParsePrefix("10.0.0.0/33"): prefix length out of range',
        ),
        "a mapped prefix": (
            "cidr('::ffff:1.2.3.4/112')",
            'network address parse error during conversion from string: IPv4-mapped IPv6 address "::ffff:1.2.3.4/112" '
            "is not allowed",
        ),
    },
)
def test_evaluation_errors(expression: str, message: str) -> None:
    with pytest.raises((EvaluationError, CompileError), match=re.escape(message)):
        value_of(expression)


def test_endless_evaluation_exceeds_the_cost_limit() -> None:
    numbers = list(range(200))
    with pytest.raises(EvaluationError, match=COST_EXCEEDED):
        value_of("self.all(a, self.all(b, a + b >= 0))", self=numbers)


def test_reference_count_of_nulls_in_values() -> None:
    program = DYNAMIC.compile("[dyn(null), dyn({'a': null})]")
    for _ in range(20_000):  # the interpreter would not survive otherwise before Python 3.12
        assert program.evaluate({}) == [None, {"a": None}]


def test_an_optional_variable_is_none_without_a_value() -> None:
    program = DYNAMIC.compile("oldSelf.hasValue() ? oldSelf.value() : 'none'", optional_variable="oldSelf")
    assert (program.evaluate({}), program.evaluate({"oldSelf": "before"})) == ("none", "before")


def test_error_positions_with_an_optional_variable() -> None:
    with pytest.raises(CompileError) as caught:
        DYNAMIC.compile("oldSelf.nothing()", optional_variable="oldSelf")
    assert str(caught.value).startswith("ERROR: <input>:1:16: undeclared reference to 'nothing'")


def test_authorizer_calls_the_callers_authorization() -> None:
    requests = []

    def answer(question: dict[str, str]) -> tuple[bool, str, str]:
        requests.append(question)
        return question["verb"] == "get", "because", ""

    token = asking.set(answer)
    try:
        check = "authorizer.group('apps').resource('deployments').namespace('n').name('d')"
        assert value_of(f"{check}.check('get').allowed() && !{check}.check('update').allowed()") is True
        assert value_of("authorizer.path('/healthz').check('get').reason()") == "because"
    finally:
        asking.reset(token)
    assert requests[0] == {"group": "apps", "resource": "deployments", "namespace": "n", "name": "d", "verb": "get"}


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "ratio": {"type": "number"},
        "port": {"x-kubernetes-int-or-string": True},
        "when": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"},
        "blob": {"type": "string", "format": "byte"},
        "my-name": {"type": "string"},
        "namespace": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "items": {"type": "array", "items": {"type": "object", "properties": {"x.y": {"type": "integer"}}}},
        "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "free": {"x-kubernetes-preserve-unknown-fields": True},
    },
}
TYPED: dict[str, Any] = {
    "replicas": 2, "ratio": 2, "port": "http", "when": "2026-01-01T00:00:00Z", "wait": "1m30s", "blob": "aGk=",
    "my-name": "me", "namespace": "ns", "labels": {"a-b": "c"}, "items": [{"x.y": 1}], "matrix": [[1, 2]],
    "free": {"q": 1},
}  # fmt: skip


def typed_value(expression: str) -> Any:
    types = Types()
    kind = types.of(SCHEMA, root=True)
    assert kind is not None
    convert = converter(SCHEMA, root=True)
    assert convert is not None
    environment = Environment({"self": kind}, types.serialized())
    obj = {"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "n"}, **TYPED}
    return environment.compile(expression).evaluate({"self": convert(obj)})


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("self.replicas > 1 && self.ratio == 2.0", True),
        ("self.port == 'http'", True),
        ("self.when < timestamp('2027-01-01T00:00:00Z') && self.wait == duration('90s')", True),
        ("self.blob == b'hi'", True),
        ("self.my__dash__name + self.__namespace__", "mens"),
        ("self.labels['a-b']", "c"),
        ("self.items.all(item, item.x__dot__y == 1)", True),
        ("self.matrix[0][1]", 2),
        ("self.metadata.name + self.kind", "nA"),
        ("has(self.metadata.generateName)", False),
    ],
)
def test_objects_are_typed_by_their_schema(expression: str, expected: object) -> None:
    assert typed_value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("self.z == 1", "ERROR: <input>:1:5: undefined field 'z'\n | self.z == 1\n | ....^"),
        ("self.free == 1", "ERROR: <input>:1:5: undefined field 'free'\n | self.free == 1\n | ....^"),
        (
            "self.replicas == 'a'",
            "ERROR: <input>:1:15: found no matching overload for '_==_' applied to '(int, string)'\n"
            " | self.replicas == 'a'\n | ..............^",
        ),
        ("self.replicas = 1", "ERROR: <input>:1:15: Syntax error: token recognition error at: '= '"),
    ],
)
def test_compile_errors_are_upstreams(expression: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        typed_value(expression)
    assert str(caught.value).startswith(message)


@cases(
    "expression, message",
    {
        "a selection from a number": ("1.foo", "1:2: type 'int' does not support field selection"),
        "a loop over a number": (
            "1.all(x, x)",
            "1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        "a macro over a number": ("[1].map(1, 2)", "1:9: argument is not an identifier"),
        "a macro with two variables": ("[1].exists(a.b, c, 2)", "1:13: argument must be a simple name"),
        "has() of a variable": ("has(self)", "1:5: invalid argument to has() macro"),
        "what follows from an error": ("foo(1).bar", "1:4: undeclared reference to 'foo' (in container '')"),
        "null": ("null == 1", "1:6: found no matching overload for '_==_' applied to '(null, int)'"),
        "a sum of texts": (
            "['a'].sum() == 1",
            "1:10: found no matching overload for 'sum' applied to 'list(string).()'",
        ),
        "a list of several types": ("[1, 'a']", "1:5: expected type 'int' but found 'string'"),
        "a map of several types": ("{'a': self, 'b': 'c'}", "1:18: expected type 'dyn' but found 'string'"),
        "a duration": ("duration('1d')", "1:10: invalid duration argument"),
        "a duration of more than 64 bits": ("duration('9999999999h')", "1:10: invalid duration argument"),
        "a time": ("true ||\n timestamp('x') == self", "2:12: invalid timestamp argument"),
        "a pattern": ("'é'.matches('(')", "1:13: invalid matches argument"),
        "a quoted field": ("'`' == self.a.`b-c`", "1:15: unsupported syntax: '`'"),
        "a list of lists that is sorted": (
            "[[1]].sort() == []",
            "1:11: found no matching overload for 'sort' applied to 'list(list(int)).()'",
        ),
    },
)
def test_the_first_compile_error(expression: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        DYNAMIC.compile(expression)
    position, line = int(message.split(":")[1]), expression.split("\n")[int(message[0]) - 1]
    assert str(caught.value) == f"ERROR: <input>:{message}\n | {line}\n | {'.' * (position - 1)}^"


def test_literals_of_one_type_are_valid() -> None:
    for expression in ("[?optional.of(1), 2]", "{'a': 1, ?'b': optional.of(2)}", "'%s %d'.format(['a', 1])"):
        DYNAMIC.compile(expression)


def test_bind_is_not_available() -> None:
    with pytest.raises(CompileError, match="undeclared reference to 'cel'"):
        DYNAMIC.compile("cel.bind(x, 1, x)")


def test_result_type_is_checked() -> None:
    with pytest.raises(CompileError, match="int"):
        DYNAMIC.compile("1 + 1", return_types=("bool",))


@pytest.mark.parametrize(
    ("name", "escaped"),
    [("a", "a"), ("a-b", "a__dash__b"), ("a.b/c", "a__dot__b__slash__c"), ("a__b", "a__underscores__b"),
     ("namespace", "__namespace__"), ("x y", None), ("1a", None)],
)  # fmt: skip
def test_names_are_escaped_as_upstream_does(name: str, escaped: str | None) -> None:
    assert escape(name) == escaped
