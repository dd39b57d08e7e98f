"""Metrics of admission policies."""

import pytest
from tests.apiserver.admission import test_mutating_policies as mutating
from tests.apiserver.admission import test_validating_policies as validating
from tests.apiserver.api import CONFIG_MAPS, Api, Object
from tests.controllermanager.metric_table import total
from tests.tables import cases

from pilothouse.apiserver.metrics import ServerMetrics
from pilothouse.env import Env

CHECKS = "apiserver_validating_admission_policy_check"
MUTATIONS = "apiserver_mutating_admission_policy_check"


@pytest.fixture
async def api(env: Env) -> Api:
    api = Api(env)
    core = api.server.core
    core.metrics = ServerMetrics(env.perf_counter, core.store, lambda: core.table)
    return api


def page(api: Api) -> str:
    assert api.server.core.metrics is not None
    return api.server.core.metrics.response().body.decode()


FALSE = {"expression": "object.data.a == '1'"}
FAILS = {"expression": "object.data.b == '1'"}


@cases(
    "validation, spec, actions, counted",
    {
        "expression is true: not counted": ({"expression": "true"}, {}, ["Deny"], {}),
        "expression is false": (FALSE, {}, ["Deny"], {("invalid_error", "deny"): 1}),
        "Warn and Audit": (FALSE, {}, ["Warn", "Audit"], {("invalid_error", "warn"): 1, ("invalid_error", "audit"): 1}),
        "expression fails": (FAILS, {}, ["Deny"], {("invalid_error", "deny"): 1}),
        "expression fails with failurePolicy Ignore": (
            FAILS, {"failurePolicy": "Ignore"}, ["Deny"], {("invalid_error", "allow"): 1},
        ),
    },
)  # fmt: skip
async def test_validations(
    api: Api, validation: Object, spec: Object, actions: list[str], counted: dict[tuple[str, str], int]
) -> None:
    policy_object = validating.policy(validation, **spec)
    await validating.post_with_policy(
        api, validating.config_map(a="2"), policy_object, validating.binding(validationActions=actions)
    )
    text = page(api)
    assert total(text, f"{CHECKS}_total") == total(text, f"{CHECKS}_duration_seconds_count") == sum(counted.values())
    for (error, action), number in counted.items():
        labels = {"policy": "p", "policy_binding": "b", "error_type": error, "enforcement_action": action}
        assert total(text, f"{CHECKS}_total", **labels) == number


@pytest.mark.parametrize(
    ("mutation", "error"),
    [("Object{data: {'b': '2'}}", "no_error"), ("Object{data: {'b': object.data.c}}", "invalid_error")],
)
async def test_mutations(api: Api, mutation: str, error: str) -> None:
    await api.create(mutating.POLICIES, mutating.policy(mutation))
    await api.create(mutating.BINDINGS, mutating.binding())
    await api.post(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    text = page(api)
    labels = {"policy": "p", "policy_binding": "b", "error_type": error}
    assert total(text, f"{MUTATIONS}_total", **labels) == total(text, f"{MUTATIONS}_total") == 1
