"""Arguments of declarations: errors are raised at the declaration, and explain the correction."""

import functools
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.operator.things import THINGS, Thing
from tests.tables import cases

from pilothouse.api.core import CONFIG_MAPS
from pilothouse.operator import (
    AdmissionRequest,
    App,
    Column,
    Context,
    CustomResource,
    Index,
    Owned,
    Reconciler,
    Reference,
    Version,
    generation_changed,
    label_changed,
)
from pilothouse.operator.custom_resource import kind_of
from pilothouse.runtime.rate_limiters import ExponentialFailureLimiter

A_KIND = "a kind is a Kind, such as pilothouse.api.core.CONFIG_MAPS, or a CustomResource"
REFERENCE = Reference(kind=CONFIG_MAPS, of=lambda _obj: ())
RULE = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}


@cases(
    "arguments, message",
    {
        "a kind without its comma": (
            {"owns": CONFIG_MAPS},
            "owns= of controller 'thing' is a tuple of kinds, got configmaps: write owns=(KIND,), with the comma",
        ),
        "a custom resource without its comma": (
            {"reads": THINGS},
            "reads= of controller 'thing' is a tuple of kinds, got CustomResource('example.com/v1', Thing): write "
            "reads=(KIND,), with the comma",
        ),
        "None": ({"owns": None}, "owns= of controller 'thing' is a tuple of kinds, got None: write owns=(KIND,)"),
        "a text": ({"owns": "configmaps"}, "is a tuple of kinds, got 'configmaps': write owns=(KIND,)"),
        "the name of a kind": (
            {"owns": ("configmaps",)},
            f"owns= of controller 'thing' is a tuple of kinds, one is 'configmaps': {A_KIND}",
        ),
        "the class of a kind": ({"reads": (Thing,)}, f"one is class Thing: {A_KIND}"),
        "a reference without its comma": (
            {"references": REFERENCE},
            "references= of controller 'thing' is a tuple of References, got Reference(…): write "
            "references=(REFERENCE,), with the comma",
        ),
        "a kind as reference": (
            {"references": (CONFIG_MAPS,)},
            "one is configmaps: write Reference(kind=KIND, of=FUNCTION) or Reference(kind=KIND, map=FUNCTION)",
        ),
        "the kind of a reference": (
            {"references": (Reference(kind="configmaps", of=REFERENCE.of),)},  # type: ignore[arg-type]
            f"references= of controller 'thing': {A_KIND}, got 'configmaps'",
        ),
        "a predicate without its comma": (
            {"predicates": generation_changed},
            "predicates= of controller 'thing' is a tuple of predicates, got generation_changed: write "
            "predicates=(PREDICATE,), with the comma",
        ),
        "a predicate that is called": ({"predicates": (True,)}, "one is True: a predicate is a function of the old"),
        "a rule without its comma": (
            {"rights": RULE},
            "rights= of controller 'thing' is a tuple of rules, got {'apiGroups': ",
        ),
        "a rule as text": ({"rights": ("patch",)}, "one is 'patch': a rule is a dict such as {'apiGroups': ['']"),
        "a predicate that makes one": (
            {"predicates": (label_changed,)},
            "predicates= of controller 'thing': 'label_changed' is called with (old, new): too many positional",
        ),
        "a predicate of what is owned": (
            {"owns": (Owned(CONFIG_MAPS, (label_changed,)),)},  # type: ignore[arg-type]
            "predicates= of controller 'thing': 'label_changed' is called with (old, new)",
        ),
        "a predicate of a reference": (
            {"references": (Reference(kind=CONFIG_MAPS, of=REFERENCE.of, predicates=(label_changed,)),)},  # type: ignore[arg-type]
            "predicates= of controller 'thing': 'label_changed' is called with (old, new)",
        ),
        "a misspelt field of a rule": (
            {"rights": ({**RULE, "apiGroup": [""]},)},
            "rights= of controller 'thing': a rule has no field 'apiGroup'; it has apiGroups, nonResourceURLs, ",
        ),
        "labels as selector": (
            {"selector": {"team": "a"}},
            "selector= of controller 'thing' is a text such as 'team=a,!old', got {'team': 'a'}",
        ),
        "workers as text": ({"workers": "4"}, "workers= of controller 'thing' is a number, got '4'"),
        "a rate limiter in the place of its function": (
            {"rate_limiter": ExponentialFailureLimiter(1.0, 300.0)},
            "rate_limiter= of controller 'thing' is a function of the Env, such as lambda env: "
            "ExponentialFailureLimiter(1.0, 300.0), got ",
        ),
        "a rate limiter without the environment": (
            {"rate_limiter": lambda: ExponentialFailureLimiter(1.0, 300.0)},
            "rate_limiter= of controller 'thing' is a function of the Env",
        ),
        "an index without its comma": (
            {"indexes": Index(CONFIG_MAPS, "team", lambda _obj: ())},
            "indexes= of controller 'thing' is a tuple of Indexes, got Index(…): write",
        ),
        "the kind of an index": (
            {"indexes": [Index("configmaps", "team", lambda _obj: ())]},  # type: ignore[arg-type]
            f"indexes= of controller 'thing': {A_KIND}, got 'configmaps'",
        ),
    },
)
def test_wrong_arguments_of_a_controller(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        App("things").controller(THINGS, **arguments)


def test_a_finalizer_without_its_name() -> None:
    app = App("things")

    @app.controller(THINGS)
    async def sync(_obj: Any, _ctx: Any) -> None: ...

    with pytest.raises(TypeError, match=re.escape("got two: write @NAME.finalizer('example.com/cleanup')")):
        sync.finalizer(two)  # type: ignore[arg-type]


def test_a_controller_has_one_finalizer() -> None:
    """kopf takes several ``on.delete`` handlers; here the first one would never be called."""
    app = App("things")

    @app.controller(THINGS)
    async def sync(_obj: Any, _ctx: Any) -> None: ...

    sync.finalizer("example.com/first")(two)
    with pytest.raises(ValueError, match=r"^controller 'thing' has the finalizer example.com/first: clean up in its"):
        sync.finalizer("example.com/second")(two)


def test_wrong_kinds() -> None:
    app, name = App("things"), "configmaps"
    with pytest.raises(TypeError, match=f"^a controller: {A_KIND}, got 'configmaps'$"):
        app.controller(name)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=f"^a controller: {A_KIND}, got sync: write @app.controller\\(KIND\\)$"):

        @app.controller  # type: ignore[arg-type]  # that is the point
        async def sync(_obj: Thing, _ctx: Context[Thing]) -> None: ...

    with pytest.raises(TypeError, match=f"^a webhook: {A_KIND}, got check: write @app.validating\\(KIND\\)$"):

        @app.validating  # type: ignore[arg-type]
        async def check(_obj: Thing, _request: AdmissionRequest[Thing]) -> None: ...

    with pytest.raises(TypeError, match=f"^a webhook: {A_KIND}, got 'configmaps'$"):
        app.mutating(name)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^reads= of a webhook is a tuple of kinds, got configmaps: write reads="):
        app.validating(THINGS, reads=CONFIG_MAPS)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=f"^{A_KIND}, got 'configmaps'$"):
        kind_of(name)  # type: ignore[arg-type]


@cases(
    "declare, error, message",
    {
        "wrong order of arguments": (
            lambda: CustomResource(Thing, "example.com/v1"),  # type: ignore[arg-type]
            TypeError,
            "CustomResource('example.com/v1', Thing) takes the API version and the class, got class Thing and "
            "'example.com/v1'",
        ),
        "not a class": (
            lambda: CustomResource("example.com/v1", "Thing"),  # type: ignore[arg-type]
            TypeError,
            "takes the API version and the class, got 'example.com/v1' and 'Thing'",
        ),
        "short names without their comma": (
            lambda: CustomResource("example.com/v1", Thing, short_names="th"),
            TypeError,
            "short_names= of things.example.com is a tuple of names, got 'th': write short_names=(NAME,), with",
        ),
        "a column without its comma": (
            lambda: CustomResource("example.com/v1", Thing, columns=Column("A", ".a")),  # type: ignore[arg-type]
            TypeError,
            "columns= of things.example.com is a tuple of Columns, got Column(…): write columns=(COLUMN,)",
        ),
        "a scale subresource without its paths": (
            lambda: CustomResource("example.com/v1", Thing, scale=True),  # type: ignore[arg-type]
            TypeError,
            "scale= of things.example.com is a dict of paths, such as {'specReplicasPath': '.spec.replicas', "
            "'statusReplicasPath': '.status.replicas'}, got True",
        ),
        "a misspelt path of the scale subresource": (
            lambda: CustomResource("example.com/v1", Thing, scale={"specReplicas": ".spec.size"}),
            ValueError,
            "scale= of things.example.com has no path 'specReplicas'; it has labelSelectorPath, specReplicasPath, ",
        ),
        "a scale subresource without a path": (
            lambda: CustomResource(
                "example.com/v1", Thing, versions=(Version("v2", Thing, scale={"specReplicasPath": ".spec.size"}),)
            ),
            ValueError,
            "scale= of things.example.com needs statusReplicasPath",
        ),
        "a class as version": (
            lambda: CustomResource("example.com/v1", Thing, versions=(Thing,)),  # type: ignore[arg-type]
            TypeError,
            "versions= of things.example.com is a tuple of Versions, one is class Thing: write Version(NAME, CLASS)",
        ),
        "a version in capitals": (
            lambda: CustomResource("example.com/V1", Thing),
            ValueError,
            "version 'V1' of things.example.com is invalid: a DNS-1035 label must consist of lower case",
        ),
        "a further version in capitals": (
            lambda: CustomResource("example.com/v1", Thing, versions=(Version("V2", Thing),)),
            ValueError,
            "version 'V2' of things.example.com is invalid: a DNS-1035 label",
        ),
        "a path as version": (
            lambda: CustomResource("example.com/v1/things", Thing),
            ValueError,
            "version 'v1/things' of things.example.com is invalid: a DNS-1035 label",
        ),
        "a group in capitals": (
            lambda: CustomResource("Example.com/v1", Thing),
            ValueError,
            "group 'Example.com' of the kind Thing is invalid: a lowercase RFC 1123 subdomain must",
        ),
        "a group without a domain": (
            lambda: CustomResource("example/v1", Thing),
            ValueError,
            "group 'example' of the kind Thing is invalid: should be a domain with at least one dot",
        ),
        "a plural in capitals": (
            lambda: CustomResource("example.com/v1", Thing, plural="Things"),
            ValueError,
            "plural 'Things' of the kind Thing is invalid: a DNS-1035 label",
        ),
        "a kind with an underscore": (
            lambda: CustomResource("example.com/v1", Thing, kind="My_Thing"),
            ValueError,
            "kind 'My_Thing' is invalid: a DNS-1035 label",
        ),
        "a short name with a space": (
            lambda: CustomResource("example.com/v1", Thing, short_names=("a b",)),
            ValueError,
            "short name 'a b' of the kind Thing is invalid: a DNS-1035 label",
        ),
        "a category in capitals": (
            lambda: CustomResource("example.com/v1", Thing, categories=("All",)),
            ValueError,
            "category 'All' of the kind Thing is invalid: a DNS-1035 label",
        ),
    },
)
def test_wrong_arguments_of_a_custom_resource(declare: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        declare()


async def one(_obj: Any) -> None: ...


async def two(_obj: Any, _ctx: Any) -> None: ...


async def three(_obj: Any, _ctx: Any, _more: Any) -> None: ...


async def keyword(_obj: Any, _ctx: Any, *, more: Any) -> None: ...


async def optional(_obj: Any, _ctx: Any = None, *, more: Any = None) -> None: ...


async def anything(*_arguments: Any) -> None: ...


@functools.wraps(three)
async def wrapper(obj: Any, ctx: Any) -> None:
    await three(obj, ctx, None)


class Methods:
    async def one(self, _obj: Any) -> None: ...

    async def two(self, _obj: Any, _ctx: Any) -> None: ...


def _decorator(name: str) -> tuple[Callable[[Any], Any], str]:
    """The decorator of that name, and the arguments that it passes."""
    app = App("things")
    sync = app.controller(CONFIG_MAPS)(two)
    decorators: dict[str, tuple[Any, str]] = {
        "controller": (app.controller(THINGS), "(obj, ctx)"),
        "finalizer": (sync.finalizer("example.com/done"), "(obj, ctx)"),
        "validating": (app.validating(THINGS), "(obj, request)"),
        "mutating": (app.mutating(THINGS), "(obj, request)"),
    }
    return decorators[name]


@pytest.mark.parametrize("decorator", ["controller", "finalizer", "validating", "mutating"])
@cases(
    "function, name, reason",
    {
        "one argument": (one, "one", "too many positional arguments"),
        "three arguments": (three, "three", "missing a required"),
        "a required keyword": (keyword, "keyword", "missing a required"),
        "partial with too many arguments": (functools.partial(two, None), "two", "too many positional arguments"),
        "a method without ctx": (Methods().one, "one", "too many positional arguments"),
        "a method without its object": (Methods.two, "two", "missing a required"),
    },
)
def test_functions_that_cannot_be_called_are_rejected(decorator: str, function: Any, name: str, reason: str) -> None:
    decorate, decorator_text = _decorator(decorator)
    message = f"{name!r} is called with {decorator_text}: {reason}", f"; declare it async def {name}{decorator_text}"
    with pytest.raises(TypeError, match=f"^{'.*'.join(map(re.escape, message))}$"):
        decorate(function)


@pytest.mark.parametrize("decorator", ["controller", "finalizer", "validating", "mutating"])
@pytest.mark.parametrize("function", [two, optional, anything, wrapper, functools.partial(three, None), Methods().two])
def test_functions_that_can_be_called_are_accepted(decorator: str, function: Any) -> None:
    decorate, _decorator_text = _decorator(decorator)
    decorate(function)


def test_methods_that_cannot_be_called_are_rejected() -> None:
    class Short(Reconciler[Thing]):
        async def reconcile(self, _obj: Thing) -> None: ...  # type: ignore[override]

    class ShortFinalizer(Reconciler[Thing]):
        async def reconcile(self, _obj: Thing, _ctx: Any) -> None: ...

        async def finalize(self) -> None: ...  # type: ignore[override]

    app = App("things")
    with pytest.raises(TypeError, match=r"^'Short.reconcile' is called with \(obj, ctx\): too many"):
        app.controller(THINGS)(Short)
    with pytest.raises(TypeError, match=r"^'ShortFinalizer.finalize' is called with \(obj, ctx\): too many"):
        app.controller(THINGS, finalizer="example.com/done")(ShortFinalizer)
