"""``--admission-control-config-file``."""

from pathlib import Path

import pytest
from tests.tables import cases

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


def test_settings_inline_or_in_another_file(tmp_path: Path) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text(whole(SETTINGS))
    assert pod_security_of(str(file)) == EXPECTED
    (tmp_path / "security.yaml").write_text(SETTINGS)
    file.write_text("kind: AdmissionConfiguration\nplugins: [{name: PodSecurity, path: security.yaml}]")
    assert pod_security_of(str(file)) == EXPECTED
    assert pod_security_of("") == PodSecurityOptions()


@cases(
    "settings, why",
    {
        "an unknown level": (
            SETTINGS.replace("baseline", "x"),
            'defaults.enforce: Invalid value: "x": must be one of privileged, baseline, restricted',
        ),
        "invalid version": (
            SETTINGS.replace("v1.30", "v2.30"),
            'defaults.enforce-version: Invalid value: "v2.30": must be "latest" or "v1.x"',
        ),
        "users": (
            SETTINGS.replace("[ci]", "[ci, ci, '']"),
            '[exemptions.usernames[1]: Duplicate value: "ci", exemptions.usernames[2]: Invalid value: "": username '
            "must not be empty]",
        ),
        "an unknown field": (SETTINGS.replace("defaults", "default"), "unknown field `default`"),
        "an unknown version": (SETTINGS.replace("k8s.io/v1", "k8s.io/v9"), "is registered for version"),
    },
)
def test_invalid_settings_are_rejected(settings: str, why: str, tmp_path: Path) -> None:
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


@cases(
    "words, expected",
    {
        "the controller runs": ([], True),
        "no controllers": (["--no-manager"], False),
        "this one does not run": (["--controllers=*,-serviceaccount"], False),
        "only this controller": (["--controllers=serviceaccount-controller"], True),
    },
)
def test_service_account_plugin_is_enabled_with_its_controller(words: list[str], expected: bool) -> None:
    assert up._creates_service_accounts(up.flag_set("up").parse(words)) is expected
