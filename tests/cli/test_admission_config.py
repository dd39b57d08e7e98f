"""Settings of admission plugins in a file."""

from pathlib import Path

import pytest

from pilothouse.apiserver.admission.pod_security.levels import LevelVersion, PodSecurityOptions, Policy
from pilothouse.cli import up
from pilothouse.cli.admission_config import pod_security_of
from pilothouse.cli.program import UserError

SETTINGS = """
apiVersion: pod-security.admission.config.k8s.io/v1
kind: PodSecurityConfiguration
defaults: {enforce: baseline, enforce-version: v1.30, warn: restricted}
exemptions: {usernames: [ci], namespaces: [kube-system], runtimeClasses: [sandbox]}
"""
EXPECTED = PodSecurityOptions(
    defaults=Policy(LevelVersion("baseline", 30), LevelVersion("privileged"), LevelVersion("restricted")),
    exempt_usernames=frozenset({"ci"}),
    exempt_namespaces=frozenset({"kube-system"}),
    exempt_runtime_classes=frozenset({"sandbox"}),
)


def whole(settings: str) -> str:
    below = "\n".join("    " + line for line in settings.splitlines())
    head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
    return f"{head}- name: PodSecurity\n  configuration:{below}\n"


def test_settings_stand_in_the_file_or_in_another_one(tmp_path: Path) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text(whole(SETTINGS))
    assert pod_security_of(str(file)) == EXPECTED
    (tmp_path / "security.yaml").write_text(SETTINGS)
    file.write_text("kind: AdmissionConfiguration\nplugins: [{name: PodSecurity, path: security.yaml}]")
    assert pod_security_of(str(file)) == EXPECTED
    assert pod_security_of("") == PodSecurityOptions()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        pytest.param(
            SETTINGS.replace("baseline", "x"),
            'defaults.enforce: Invalid value: "x": must be one of privileged, baseline, restricted',
            id="an unknown level",
        ),
        pytest.param(
            SETTINGS.replace("v1.30", "v2.30"),
            'defaults.enforce-version: Invalid value: "v2.30": must be "latest" or "v1.x"',
            id="no version",
        ),
        pytest.param(
            SETTINGS.replace("[ci]", "[ci, ci, '']"),
            '[exemptions.usernames[1]: Duplicate value: "ci", exemptions.usernames[2]: Invalid value: "": username '
            "must not be empty]",
            id="users",
        ),
        pytest.param(SETTINGS.replace("defaults", "default"), "unknown field `default`", id="an unknown field"),
        pytest.param(SETTINGS.replace("k8s.io/v1", "k8s.io/v9"), "is registered for version", id="an unknown version"),
    ],
)
def test_what_cannot_be_meant_is_rejected(settings: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text(whole(settings))
    with pytest.raises(UserError) as caught:
        pod_security_of(str(file))
    assert why in str(caught.value)


def test_settings_of_other_plugins_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text("kind: AdmissionConfiguration\nplugins: [{name: EventRateLimit}]")
    assert pod_security_of(str(file)) == PodSecurityOptions()
    assert "EventRateLimit has no effect" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([], True, id="the controller runs"),
        pytest.param(["--no-manager"], False, id="no controller runs"),
        pytest.param(["--controllers=*,-serviceaccount"], False, id="this one does not run"),
        pytest.param(["--controllers=serviceaccount-controller"], True, id="it alone runs"),
    ],
)
def test_pods_need_an_account_where_somebody_makes_them(words: list[str], expected: bool) -> None:
    assert up._makes_accounts(up.flag_set("up").parse(words)) is expected
