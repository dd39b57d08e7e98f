"""Enabled admission plugins and their order (apiserver ``pkg/server/options/admission_test.go``, v0.36)."""

import pytest
from tests.apiserver.api import Api
from tests.tables import cases

from pilothouse.apiserver import ServerOptions
from pilothouse.apiserver.admission.built_in import FACTORIES, FEATURE_GATES, new_from_plugins, unimplemented
from pilothouse.apiserver.admission.names import ALL_ORDERED_PLUGINS, DEFAULT, WITHOUT_CONTROLLERS, enabled_plugin_names
from pilothouse.apiserver.admission.node_restriction.plugin import NodeRestriction
from pilothouse.cli.apiserver import flag_set, open_server
from pilothouse.cli.program import parse
from pilothouse.env import Env


@pytest.mark.parametrize("gates", [(), ("GenericWorkload",)], ids=["no gates", "with GenericWorkload"])
async def test_plugins_run_in_upstreams_order(env: Env, gates: tuple[str, ...]) -> None:
    """Plugins with a disabled gate are omitted."""
    api = Api(env, ServerOptions(gates=gates))
    core = api.server.core
    plugins = [type(plugin) for plugin in new_from_plugins(core, tuple(reversed(DEFAULT)))]
    expected = [
        name
        for name in ALL_ORDERED_PLUGINS
        if name in DEFAULT and name in FACTORIES and FEATURE_GATES.get(name, "") in ("", *gates)
    ]
    assert plugins == [type(FACTORIES[name](core)) for name in expected]
    names = [item.__name__ for item in plugins]
    assert names.index("LimitRanger") < names.index("ServiceAccount") < names.index("Priority")
    assert names[-1] == "ResourceQuota"
    assert ("PodGroupProtection" in names) is ("GenericWorkload" in gates)


async def test_disabled_plugin_does_not_run(env: Env) -> None:
    names = enabled_plugin_names(WITHOUT_CONTROLLERS, (), ("NamespaceLifecycle",))
    for options, expected in ((None, 404), (ServerOptions(admission_plugins=names), 201)):
        answer = await Api(env, options).post("/api/v1/namespaces/missing/configmaps", {"metadata": {"name": "c"}})
        assert answer.status == expected


@cases(
    "words, runs",
    {
        "RBAC": (["--authorization-mode=RBAC"], True),
        "everybody may do everything": ([], False),
        "--enable-admission-plugins": (["--enable-admission-plugins=NodeRestriction"], True),
        "--disable-admission-plugins": (
            ["--authorization-mode=RBAC", "--disable-admission-plugins=NodeRestriction"],
            False,
        ),
    },
)
def test_node_restriction_is_enabled_with_rbac(words: list[str], runs: bool) -> None:
    parsed = parse(flag_set("apiserver"), "apiserver", ["--port=0", *words])
    assert not isinstance(parsed, int)
    served = open_server(Env(), parsed)
    assert any(isinstance(plugin, NodeRestriction) for plugin in served.server.core.admission.plugins) is runs


def test_node_restriction_is_not_enabled_by_default_in_kube_apiserver() -> None:
    assert "NodeRestriction" not in DEFAULT


def test_enable_and_disable_flags() -> None:
    assert "ServiceAccount" not in WITHOUT_CONTROLLERS
    names = enabled_plugin_names(WITHOUT_CONTROLLERS, ("ServiceAccount", "AlwaysDeny"), ("Priority",))
    assert names == (*(name for name in DEFAULT if name != "Priority"), "AlwaysDeny")
    assert unimplemented(names) == ["AlwaysDeny"]


@cases(
    "enable, disable, why",
    {
        "unknown to enable": (["X"], [], 'enable-admission-plugins plugin "X" is unknown'),
        "unknown to disable": ([], ["X"], 'disable-admission-plugins plugin "X" is unknown'),
        "enabled and disabled": (
            ["Priority", "LimitRanger"],
            ["LimitRanger", "Priority"],
            "[LimitRanger Priority] in enable-admission-plugins and disable-admission-plugins overlapped",
        ),
    },
)
def test_invalid_plugin_flags(enable: list[str], disable: list[str], why: str) -> None:
    with pytest.raises(ValueError) as caught:
        enabled_plugin_names(DEFAULT, enable, disable)
    assert str(caught.value) == why
