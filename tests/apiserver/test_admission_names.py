"""Which admission plugins run (apiserver ``pkg/server/options/admission_test.go``, v0.36)."""

import pytest
from tests.apiserver.api import Api, on

from pilothouse.apiserver import ServerOptions
from pilothouse.apiserver.admission.built_in import MAKERS, missing, plugins
from pilothouse.apiserver.admission.names import DEFAULT, ORDER, WITHOUT_CONTROLLERS, chosen


def test_plugins_run_in_upstreams_order_whatever_the_order_of_the_choice() -> None:
    async def main(api: Api) -> tuple[list[type], list[type]]:
        core = api.server.core
        made = [type(plugin) for plugin in plugins(core, tuple(reversed(DEFAULT)))]
        return made, [type(MAKERS[name](core)) for name in ORDER if name in DEFAULT and name in MAKERS]

    made, expected = on(main)
    assert made == expected
    names = [found.__name__ for found in made]
    assert names.index("LimitRanger") < names.index("ServiceAccount") < names.index("Priority")
    assert names[-1] == "ResourceQuota"


def test_a_plugin_that_is_turned_off_does_nothing() -> None:
    async def main(api: Api) -> int:
        return (await api.post("/api/v1/namespaces/missing/configmaps", {"metadata": {"name": "c"}})).status

    names = chosen(WITHOUT_CONTROLLERS, (), ("NamespaceLifecycle",))
    assert on(main) == 404
    assert on(main, ServerOptions(admission_plugins=names)) == 201


def test_flags_add_and_take_away() -> None:
    assert "ServiceAccount" not in WITHOUT_CONTROLLERS
    names = chosen(WITHOUT_CONTROLLERS, ("ServiceAccount", "AlwaysDeny"), ("Priority",))
    assert names == (*(name for name in DEFAULT if name != "Priority"), "AlwaysDeny")
    assert missing(names) == ["AlwaysDeny"]


@pytest.mark.parametrize(
    ("enable", "disable", "why"),
    [
        pytest.param(["X"], [], 'enable-admission-plugins plugin "X" is unknown', id="unknown to enable"),
        pytest.param([], ["X"], 'disable-admission-plugins plugin "X" is unknown', id="unknown to disable"),
        pytest.param(
            ["Priority", "LimitRanger"],
            ["LimitRanger", "Priority"],
            "[LimitRanger Priority] in enable-admission-plugins and disable-admission-plugins overlapped",
            id="both",
        ),
    ],
)
def test_a_choice_that_makes_no_sense(enable: list[str], disable: list[str], why: str) -> None:
    with pytest.raises(ValueError) as caught:
        chosen(DEFAULT, enable, disable)
    assert str(caught.value) == why
