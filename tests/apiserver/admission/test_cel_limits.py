"""Cost limits of CEL expressions in policies and rules, and evaluation in worker processes."""

import asyncio
import copy
from typing import Any

import pytest
from tests.apiserver.admission import test_mutating_policies as mutating
from tests.apiserver.admission.test_validating_policies import (
    BINDINGS,
    DENIED,
    POLICIES,
    binding,
    config_map,
    policy,
    post_with_policy,
)
from tests.apiserver.api import CONFIG_MAPS, Answer, Api, Object
from tests.custom_resources import DEFINITIONS, definition, version
from tests.tables import cases

from pilothouse.apiserver.admission.dynamic import expressions
from pilothouse.cel.environment import Environment
from pilothouse.cel.limits import COST_EXCEEDED, OUT_OF_BUDGET, Busy, Compiled, Evaluated, Source, Task
from pilothouse.cel.work import Extent, measure
from pilothouse.env import Env

REPEATED = "(a{1,100}b?){1,10}c"
HEAVY_POLICY = {"expression": f"!object.data.a.matches('{REPEATED}')"}
LARGE = config_map(a="a" * 200_000)


@cases(
    "policy_spec, code, message",
    {
        "a validation": (policy(HEAVY_POLICY), 422,
                     f"{DENIED}expression '{HEAVY_POLICY['expression']}' resulted in error: {COST_EXCEEDED}"),
        "failures are ignored": (policy(HEAVY_POLICY, failurePolicy="Ignore"), 201, ""),
        "a variable": (
            policy({"expression": "variables.v"}, variables=[{"name": "v", **HEAVY_POLICY}]), 422,
            f"{DENIED}expression 'variables.v' resulted in error: composited variable \"v\" fails to evaluate: "
            f"{COST_EXCEEDED}"),
        "a match condition": (policy({"expression": "true"}, matchConditions=[{"name": "m", **HEAVY_POLICY}]), 422,
                     f"{DENIED}expression '{HEAVY_POLICY['expression']}' resulted in error: {COST_EXCEEDED}"),
        "a message": (policy({"expression": "false", "messageExpression": "object.data.a.replace('a', object.data.a)",
                             "message": "m"}), 422, f"{DENIED}m"),
    },
)  # fmt: skip
async def test_policy_exceeding_its_cost_budget_follows_its_failure_policy(
    api: Api, policy_spec: Object, code: int, message: str
) -> None:
    answer = await post_with_policy(api, LARGE, policy_spec, binding())
    assert (answer.status, answer.body.get("message", "")) == (code, message)


async def test_authorizer_checks_count_towards_the_cost_budget(env: Env) -> None:
    check = "authorizer.path('/healthz').check('get').allowed()"

    async def send(times: int) -> Answer:
        policy_object = policy({"expression": " && ".join([check] * times)})
        return await post_with_policy(Api(env), config_map(a="1"), policy_object, binding())

    assert (await send(2)).status == 201
    answer = await send(3)
    assert answer.status == 422
    assert answer.body["message"].endswith(f"resulted in error: {COST_EXCEEDED}")


async def test_unused_authorizer_check_exceeds_the_cost_budget(api: Api) -> None:
    check = "authorizer.path('/healthz').check('get').allowed()"
    policy_object = policy({"expression": f"{check} && {check} && ({check} || true)"})
    answer = await post_with_policy(api, config_map(a="1"), policy_object, binding())
    assert answer.status == 422


class Process:
    """A stub of the worker process: every expression compiles, is true, and takes the given time."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.tasks: list[Task] = []
        self.sources: list[Source] = []
        self.seconds = seconds
        self.is_busy = False

    async def run(self, task: Task, request: Any = None) -> Evaluated:
        if self.is_busy:
            raise Busy
        return self.evaluate(task)

    async def run_compile(self, source: Source) -> Compiled:
        if self.is_busy:
            raise Busy
        return self.compile(source)

    def compile(self, source: Source) -> Compiled:
        self.sources.append(source)
        return Environment(source.variables, source.messages).compiled(source)

    def evaluate(self, task: Task) -> Evaluated:
        self.tasks.append(task)
        return Evaluated(True, seconds=self.seconds)


async def evaluated_by(api: Api, process: Process, policy_spec: Object, body: Object) -> Answer:
    api.server.core.long_work.create_sandbox = lambda: process
    return await post_with_policy(api, body, policy_spec, binding())


async def test_expensive_expressions_are_evaluated_in_a_worker_process(api: Api) -> None:
    process = Process()
    policy_object = policy(HEAVY_POLICY, {"expression": "object.data.a.size() > 1"}, HEAVY_POLICY)
    assert (await evaluated_by(api, process, policy_object, LARGE)).status == 201
    assert [len(task.values["object"]["data"]["a"]) for task in process.tasks] == [200_000, 200_000]


async def test_cheap_expressions_are_evaluated_in_process(api: Api) -> None:
    process = Process()
    assert (
        await evaluated_by(api, process, policy({"expression": "object.data.all(k, k.size() < 9)"}), config_map(a="1"))
    ).status == 201
    assert process.tasks == []


async def test_expression_costs_are_summed_per_object(api: Api) -> None:
    policy_object = policy(*[HEAVY_POLICY] * 20)
    process = Process(seconds=0.4)
    answer = await evaluated_by(api, process, policy_object, LARGE)
    assert (answer.status, answer.body["message"]) == (422, DENIED + OUT_OF_BUDGET)
    assert len(process.tasks) == 13


async def test_match_conditions_have_a_lower_cost_limit(api: Api) -> None:
    policy_object = policy(
        {"expression": "true"}, matchConditions=[{"name": f"m{n}", **HEAVY_POLICY} for n in range(10)]
    )
    process = Process(seconds=0.4)
    answer = await evaluated_by(api, process, policy_object, LARGE)
    assert (answer.status, answer.body["message"]) == (422, DENIED + OUT_OF_BUDGET)
    assert len(process.tasks) == 4


async def test_full_worker_queue_returns_429(api: Api) -> None:
    process = Process()
    process.is_busy = True
    assert (await evaluated_by(api, process, policy(HEAVY_POLICY), LARGE)).status == 429


LONG = f"[{','.join(['1'] * 1000)}].size() == 1000"


async def test_concurrent_writes_share_one_compilation(api: Api) -> None:
    process = Process()
    await post_with_policy(api, config_map(a="1"), policy({"expression": "true"}), binding())
    api.server.core.long_work.create_sandbox = lambda: process
    stored = (await api.get(f"{POLICIES}/p")).body
    changed = {**stored, "spec": {**stored["spec"], "validations": [{"expression": LONG}]}}
    assert (await api.put(f"{POLICIES}/p", changed)).status == 200
    both = await asyncio.gather(*(api.post(CONFIG_MAPS, {"metadata": {"name": name}}) for name in ("x", "y")))
    assert [answer.status for answer in both] == [201, 201]
    assert [len(process.sources), len(process.tasks)] == [1, 2]


async def test_object_size_is_computed_once_for_all_bindings(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    result = []

    def counting(value: Any) -> Extent:
        result.append(value)
        return measure(value)

    monkeypatch.setattr(expressions, "measure", counting)
    bindings = [{**binding(), "metadata": {"name": f"b{number}"}} for number in range(3)]
    policy_object = policy(
        {"expression": "variables.v != ''"}, variables=[{"name": "v", "expression": "object.data.a"}]
    )
    await api.create(POLICIES, policy_object)
    for item in bindings:
        await api.create(BINDINGS, item)
    assert (await api.post(CONFIG_MAPS, config_map(a="1"))).status == 201
    assert [value["object"]["data"] for value in result if isinstance(value, dict)] == [{"a": "1"}]
    assert [value for value in result if isinstance(value, str)] == ["1"] * 3  # the variable of each


@pytest.mark.parametrize("path", [POLICIES, mutating.POLICIES])
async def test_other_tasks_run_between_the_params_of_a_policy(api: Api, path: str) -> None:
    """Who may write ConfigMaps decides how many params a selector selects."""
    for number in range(40):
        await api.create(CONFIG_MAPS, config_map(f"param-{number}"))
    selected: Object = {"paramRef": {"selector": {"matchLabels": {"x": "y"}}, "parameterNotFoundAction": "Deny"}}
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    if path == POLICIES:
        policy_object = policy({"expression": "params.metadata.name != ''"}, paramKind=kind)
        bound = binding(**selected)
    else:
        policy_object = mutating.policy("Object{data: {'a': params.metadata.name}}", paramKind=kind)
        bound = mutating.binding(**selected)
    await api.create(path, policy_object)
    await api.create(path.replace("policies", "policybindings"), bound)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with asyncio.TaskGroup() as group:
        counting = group.create_task(count_turns())
        created = await api.post(CONFIG_MAPS, config_map())
        counting.cancel()
    assert created.status == 201
    assert turns >= 40


# Rules of custom resources


NEVER = [{"rule": f"!self.text.matches('{REPEATED}')"}, {"rule": "self.text != 'never'"}]
RULED: Object = {
    "type": "object",
    "properties": {"text": {"type": "string", "maxLength": 30_000}},
    "x-kubernetes-validations": NEVER,
}
DEFINITION = definition("Thing", version(schema=RULED))
THINGS = "/apis/example.com/v1/namespaces/default/things"


async def create_thing(api: Api, text: str, definition: Object = DEFINITION) -> Answer:
    await api.create(DEFINITIONS, definition)
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "text": text}
    return await api.post(THINGS, thing)


async def test_rule_exceeding_its_cost_budget_stops_evaluation(api: Api) -> None:
    answer = await create_thing(api, "a" * 30_000)
    assert answer.status == 422
    [cause] = answer.body["details"]["causes"]
    assert cause["message"].endswith(
        f"'{COST_EXCEEDED}': no further validation rules will be run due to call cost exceeds limit for rule: "
        f"!self.text.matches('{REPEATED}')"
    )


class Worker:
    """A stub of the worker thread."""

    is_full = False

    def __init__(self) -> None:
        self.worked: list[str] = []

    async def run(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        self.worked.append(function.__name__)
        return function(*args, **kwargs)


async def test_small_object_with_expensive_rules_is_validated_in_a_worker(api: Api) -> None:
    process, worker = Process(), Worker()
    api.server.core.long_work.create_sandbox = lambda: process
    api.server.core.long_work.get_worker = lambda: worker
    assert (await create_thing(api, "a" * 20_000)).status == 201
    assert (worker.worked, len(process.tasks)) == (["_check"], 1)


@cases(
    "rules, compiled, evaluated",
    {
        "one long expression is compiled in another process": ([LONG], 2, 1),
        "many expressions are compiled in the worker": (
            [f"self.text != '{'a' * 300}{number}'" for number in range(5)],
            0,
            0,
        ),
    },
)
async def test_long_rules_are_compiled_in_a_worker_thread(
    api: Api, rules: list[str], compiled: int, evaluated: int
) -> None:
    process, worker = Process(), Worker()
    schema: Object = {"type": "object", "properties": {"text": {"type": "string", "maxLength": 9}}}
    schema["x-kubernetes-validations"] = [{"rule": rule} for rule in rules]
    definition = copy.deepcopy(DEFINITION)
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    api.server.core.long_work.create_sandbox = lambda: process
    api.server.core.long_work.get_worker = lambda: worker
    assert (await create_thing(api, "b", definition)).status == 201
    assert worker.worked == ["_check", "_check"]  # the definition, and the first object
    assert (len(process.sources), len(process.tasks)) == (compiled, evaluated)


async def test_rejected_write_does_not_change_the_stored_object(api: Api) -> None:
    answer = await post_with_policy(api, LARGE, policy(HEAVY_POLICY), binding())
    assert (answer.status, (await api.get(f"{CONFIG_MAPS}/c")).status) == (422, 404)
