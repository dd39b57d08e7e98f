"""``pilothouse run`` and ``pilothouse generate``: their files, flags and output."""

import asyncio
import json
import operator
import re
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.custom_resources import definition, version
from tests.tables import cases

from pilothouse.api.meta import ObjectMeta, View
from pilothouse.cli import dev, main, run
from pilothouse.cli.program import UserError
from pilothouse.cli.webhooks import webhook_settings
from pilothouse.client import Client, in_cluster
from pilothouse.client.connect import connect
from pilothouse.client.interceptor import Rule, conflict
from pilothouse.env import Env
from pilothouse.operator import App, CustomResource, WebhookSettings
from pilothouse.operator.endpoints import Endpoints, metrics, probes
from pilothouse.serving import Server
from pilothouse.testing import async_plane
from pilothouse.testing.running import ProgramUnderTest


class Thing(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


EXAMPLE = Path(__file__).parents[2] / "examples" / "website_operator.py"
BACKUPS = EXAMPLE.with_name("backup_operator.py")


@pytest.mark.parametrize("words", [["generate", "manifests"], ["run"]])
def test_an_error_of_the_file_is_shown_without_frames_of_pilothouse(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken_operator.py"
    file.write_text("def f():\n    return 1 / 0\n\nf()\n")
    assert main([*words, str(file)]) == 1
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == f"Error: {file}, line 2: ZeroDivisionError: division by zero"
    assert rest[0] == "Traceback (most recent call last):"
    assert "pilothouse" not in "".join(rest).replace(str(tmp_path), "")


def test_a_rejected_declaration_is_shown_without_frames_of_pilothouse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken_operator.py"
    file.write_text(
        "from pilothouse.api.core import PODS\nfrom pilothouse.operator import App\napp = App('a')\n"
        "@app.validating(PODS)\ndef check(pod, request):\n    pass\n"
    )
    assert main(["generate", "manifests", str(file)]) == 1
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == f"Error: {file}, line 4: TypeError: 'check' is no coroutine function: declare it async def"
    assert [line.split(",")[0].strip() for line in rest if " line " in line] == [f'File "{file}"']


@pytest.mark.parametrize("words", [["generate", "manifests"], ["run"]])
def test_a_file_that_ends_the_program_is_an_error(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken_operator.py"
    file.write_text("raise SystemExit(3)\n")
    assert main([*words, str(file)]) == 1
    assert capsys.readouterr().err.startswith(f"Error: {file}, line 1: SystemExit: 3\n")


def test_the_manifests_of_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "manifests", str(EXAMPLE), "-n", "sites", "--image", "example.com/sites:1"]) == 0
    objects = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [obj["kind"] for obj in objects] == [
        "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
        "Deployment",
    ]  # fmt: skip
    namespaced = [obj for obj in objects if obj["kind"] in ("ServiceAccount", "Role", "RoleBinding", "Deployment")]
    assert {obj["metadata"]["namespace"] for obj in namespaced} == {"sites"}
    rules = {
        (rule["apiGroups"][0], resource): rule["verbs"]
        for rule in objects[2]["rules"]
        for resource in rule["resources"]
    }
    assert rules == {
        ("", "configmaps"): ["create", "delete", "get", "list", "patch", "watch"],
        ("", "services"): ["create", "delete", "get", "list", "patch", "watch"],
        ("", "events"): ["create", "patch"],
        ("apps", "deployments"): ["create", "delete", "get", "list", "patch", "watch"],
        ("example.com", "websites"): ["get", "list", "patch", "watch"],
        ("example.com", "websites/status"): ["patch"],
        ("example.com", "websites/finalizers"): ["update"],
    }
    (container,) = objects[-1]["spec"]["template"]["spec"]["containers"]
    assert "--leader-elect-namespace=sites" in container["args"]


def test_the_manifests_of_an_operator_with_webhooks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "manifests", str(BACKUPS), "-n", "ops", "--image", "example.com/backups:1"]) == 0
    objects = list(yaml.safe_load_all(capsys.readouterr().out))
    by_kind = {obj["kind"]: obj for obj in objects}
    assert [obj["kind"] for obj in objects] == [
        "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
        "Service", "Deployment", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
    ]  # fmt: skip
    service = {"namespace": "ops", "name": "backup-operator-webhooks", "port": 443}
    conversion = by_kind["CustomResourceDefinition"]["spec"]["conversion"]
    assert conversion["webhook"]["clientConfig"] == {"service": {**service, "path": "/convert"}}
    (webhook,) = by_kind["ValidatingWebhookConfiguration"]["webhooks"]
    assert webhook["clientConfig"]["service"] == {
        **service, "path": "/validate-example-com-v2-backup/check-schedule",
    }  # fmt: skip
    configurations = {"apiGroups": ["admissionregistration.k8s.io"], "resourceNames": ["backup-operator"],
                      "verbs": ["get", "patch"]}  # fmt: skip
    rules = by_kind["ClusterRole"]["rules"]
    assert rules[-3:] == [
        {**configurations, "resources": ["mutatingwebhookconfigurations"]},
        {**configurations, "resources": ["validatingwebhookconfigurations"]},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
         "resourceNames": ["backups.example.com"], "verbs": ["get", "patch"]},
    ]  # fmt: skip
    assert by_kind["Role"]["rules"][2:] == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["backup-operator-webhook-certificates"],
         "verbs": ["get", "patch"]},
    ]  # fmt: skip
    pod = by_kind["Deployment"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert "--webhook-namespace=ops" in container["args"]
    (port,) = by_kind["Service"]["spec"]["ports"]
    assert {"name": port["targetPort"], "containerPort": 9443} in container["ports"]
    assert by_kind["Service"]["metadata"] == {"name": service["name"], "namespace": "ops"}
    assert by_kind["Service"]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert container["volumeMounts"][0]["name"] == pod["spec"]["volumes"][0]["name"]


async def test_the_manifests_with_certificates_of_cert_manager(env: Env, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("-n", "default", "--image", "example.com/backups:1", "--webhook-certificates=cert-manager")
    assert main(["generate", "manifests", str(BACKUPS), *flags]) == 0
    objects = list(yaml.safe_load_all(capsys.readouterr().out))
    kinds = [obj["kind"] for obj in objects]
    assert kinds == [
        "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
        "Service", "Issuer", "Certificate", "Deployment", "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ]  # fmt: skip
    by_kind = dict(zip(kinds, objects, strict=True))
    certificate = by_kind["Certificate"]
    assert by_kind["Service"]["metadata"]["name"] + ".default.svc" in certificate["spec"]["dnsNames"]
    assert certificate["spec"]["issuerRef"] == {"kind": "Issuer", "name": by_kind["Issuer"]["metadata"]["name"]}
    # What cert-manager writes into, and the Secret that it writes.
    named = f"default/{certificate['metadata']['name']}"
    for kind in ("CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert by_kind[kind]["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": named}
    pod = by_kind["Deployment"]["spec"]["template"]["spec"]
    (container,), (volume,) = pod["containers"], pod["volumes"]
    (mount,) = container["volumeMounts"]
    assert volume == {"name": mount["name"], "secret": {"secretName": certificate["spec"]["secretName"]}}
    assert f"--webhook-cert-dir={mount['mountPath']}" in container["args"]
    # No rights for what cert-manager does.
    granted = {
        resource
        for kind in ("ClusterRole", "Role")
        for rule in by_kind[kind]["rules"]
        for resource in rule["resources"]
    }
    assert granted.isdisjoint({"secrets", "mutatingwebhookconfigurations", "customresourcedefinitions"})
    kinds_of_cert_manager = [
        definition(kind, version("v1"), group="cert-manager.io") for kind in ("Issuer", "Certificate")
    ]
    async with async_plane(env=env, nodes=0, controllers=(), crds=kinds_of_cert_manager) as cluster:
        await cluster.apply(objects)


@cases(
    "words, message",
    {
        "certificates without webhooks": (
            [str(EXAMPLE), "--webhook-certificates=cert-manager"],
            "certificates='cert-manager': app website-operator has no webhooks and no conversions",
        ),
        "unsupported value": (
            [str(BACKUPS), "--webhook-certificates=self"],
            "--webhook-certificates must be operator or cert-manager, got self",
        ),
        "invalid namespace": ([str(EXAMPLE), "--namespace=A b"], "namespace 'A b': a lowercase RFC 1123 label"),
        "app without controllers": (["{tmp}/empty_operator.py"], "Error: app one has no controllers and no webhooks"),
        "invalid image": ([str(EXAMPLE), "--image=a b"], "image 'a b': must not have spaces"),
    },
)
def test_manifests_that_cannot_be_had_are_rejected(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], message: str
) -> None:
    (tmp_path / "empty_operator.py").write_text("from pilothouse.operator import App\napp = App('one')\n")
    assert main(["generate", "manifests", *(word.format(tmp=tmp_path) for word in words)]) != 0
    assert message in capsys.readouterr().err


def test_manifests_have_no_aliases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "manifests", str(EXAMPLE), "--image", "example.com/sites:1"]) == 0
    assert "&id" not in capsys.readouterr().out


def test_a_file_may_be_named_after_a_module_of_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "operator.py").write_text(
        "from pilothouse.api.core import CONFIG_MAPS\n"
        "from pilothouse.operator import App\n"
        "app = App('one')\n"
        "@app.controller(CONFIG_MAPS)\n"
        "async def sync(obj, ctx): ...\n"
    )
    assert main(["generate", "manifests", str(tmp_path / "operator.py")]) == 0
    assert sys.modules["operator"] is operator


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [(["--install"], 1, "the object has been modified"), ([], 2, "app one has no controllers and no webhooks")],
)
async def test_an_operator_that_cannot_run_reports_the_reason(
    env: Env, monkeypatch: pytest.MonkeyPatch, flags: list[str], code: int, message: str
) -> None:
    app = App("one")
    app.controller(CustomResource("example.com/v1", Thing))
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:

        @asynccontextmanager
        async def connected(*_arguments: object) -> AsyncIterator[Client]:
            faults = [Rule(conflict(), verb="patch")]
            yield ProgramUnderTest(env, cluster.plane.server, app, faults=faults).client()

        monkeypatch.setattr(run, "connected", connected)
        off = ["--metrics-bind-address=0", "--health-probe-bind-address=0"]
        with pytest.raises(UserError, match=message) as raised:
            await run.run_app(app, run.flag_set("run").parse([*off, *flags]))
        assert raised.value.code == code


async def test_applied_definitions_are_logged(env: Env, caplog: pytest.LogCaptureFixture) -> None:
    app = App("one")
    app.controller(CustomResource("example.com/v1", Thing))
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        caplog.set_level("INFO")
        await app.install(cluster.client)
        applied = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Applied")]
        assert applied == ['Applied the CustomResourceDefinition name="things.example.com"']


@pytest.mark.real_loop(timeout=20)
async def test_webhook_certificates_that_cannot_be_read_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    env, app = Env(), App("one")
    app.validating(CustomResource("example.com/v1", Thing))(_check)
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:

        @asynccontextmanager
        async def connected(*_arguments: object) -> AsyncIterator[Client]:
            yield ProgramUnderTest(env, cluster.plane.server, app).client()

        monkeypatch.setattr(run, "connected", connected)
        off = ["--metrics-bind-address=0", "--health-probe-bind-address=0", "--install"]
        error = rf"^--webhook-cert-dir: {tmp_path}/tls\.crt: No such file or directory$"
        with pytest.raises(UserError, match=error):
            await run.run_app(app, run.flag_set("run").parse([*off, f"--webhook-cert-dir={tmp_path}"]))


@pytest.mark.real_loop(timeout=20)
async def test_a_webhook_port_that_is_taken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    env, app = Env(), App("one")
    app.validating(CustomResource("example.com/v1", Thing))(_check)
    other = Server(Endpoints(probes(lambda: ())), port=0)
    port = await other.start()
    try:
        async with async_plane(env=env, nodes=0, controllers=()) as cluster:

            @asynccontextmanager
            async def connected(*_arguments: object) -> AsyncIterator[Client]:
                yield ProgramUnderTest(env, cluster.plane.server, app).client()

            monkeypatch.setattr(run, "connected", connected)
            off = ["--metrics-bind-address=0", "--health-probe-bind-address=0", "--install"]
            with pytest.raises(UserError, match=f"port {port} is in use by another program; give another one"):
                await run.run_app(app, run.flag_set("run").parse([*off, f"--webhook-port={port}"]))
            assert dev._free_port(port) > port
    finally:
        await other.stop()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "needs the file of an operator"),
        (["run", "--install", "nowhere.py"], "expected the Python file of an operator, got nowhere.py: no such file"),
        (["run", "a.py", "b.py"], '"pilothouse run" does not take any more arguments, got ["b.py"]'),
        (["run", "nowhere.py"], "expected the Python file of an operator, got nowhere.py: no such file"),
        (["run", "{tmp}/empty.py"], "must have one App, or be named as FILE:NAME; there is none"),
        (["run", "{tmp}/two.py"], "must have one App, or be named as FILE:NAME; there are one, two"),
        (["run", "{tmp}/two.py:three"], "has no App named three; there are one, two"),
        (["run", "{tmp}/single.py:two"], "has no App named two; there is one"),
        (["run", str(EXAMPLE), "--metrics-bind-address=nine"], "must be HOST:PORT, :PORT or 0"),
        (
            ["generate", "-n", "sites", "manifests", "nowhere.py"],
            "expected the Python file of an operator, got nowhere.py: no such file",
        ),
        (["generate", "manifests"], 'expected "pilothouse generate manifests FILE"'),
        (["generate", "roles", "x"], 'or "pilothouse generate models CRD.yaml"'),
    ],
)
def test_files_that_cannot_be_run_are_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], message: str
) -> None:
    app = "from pilothouse.operator import App\n"
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "single.py").write_text(f"{app}one = App('one')\n")
    (tmp_path / "two.py").write_text(f"{app}one = App('one')\ntwo = App('two')\n")
    assert main([word.format(tmp=tmp_path) for word in words]) == 2
    assert re.search(re.escape(message), capsys.readouterr().err)


@pytest.mark.real_loop(timeout=20)
async def test_metrics_and_probes_are_served() -> None:
    missing = ["caches", "webhooks"]
    server = Server(Endpoints({**metrics(lambda: "a_total 1\n"), **probes(lambda: missing)}))
    await server.start()
    try:

        def get(path: str, method: str = "GET") -> tuple[int, str]:
            request = urllib.request.Request(f"{server.url}{path}", method=method)
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        assert await asyncio.to_thread(get, "/metrics") == (200, "a_total 1\n")
        assert await asyncio.to_thread(get, "/healthz") == (200, "ok")
        assert await asyncio.to_thread(get, "/readyz") == (500, "not ready: caches, webhooks")
        missing.clear()
        assert await asyncio.to_thread(get, "/readyz") == (200, "ok")
        assert await asyncio.to_thread(get, "/metrics", "HEAD") == (200, "")
        assert (await asyncio.to_thread(get, "/metrics", "POST"))[0] == 405
        assert (await asyncio.to_thread(get, "/other"))[0] == 404
    finally:
        await server.stop()


async def _check(_obj: Any, _request: Any) -> None: ...


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "outside of a cluster give --install, which has the API server call them at this machine"),
        (["--install", "--webhook-port=70000"], "--webhook-port must be between 0 and 65535, got 70000"),
        (["--install", "--webhook-port=-1"], "--webhook-port must be between 0 and 65535, got -1"),
    ],
)
async def test_webhooks_that_cannot_be_served_are_explained(env: Env, flags: list[str], message: str) -> None:
    app = App("one")
    app.validating(CustomResource("example.com/v1", Thing))(_check)
    client: Any = None
    with pytest.raises(UserError, match=message):
        await webhook_settings(app, run.flag_set("run").parse(flags), client)


@pytest.mark.parametrize(
    ("flags", "in_cluster", "expected"),
    [
        (["--install"], False, WebhookSettings(host="127.0.0.1", url_host="127.0.0.1", install=True)),
        (["--install", "--webhook-host=laptop.example.com"], False,
         WebhookSettings(url_host="laptop.example.com", install=True)),
        (["--webhook-namespace=ops", "--webhook-cert-dir=/certs"], True,
         WebhookSettings(namespace="ops", certificate_directory="/certs")),
        (["--webhook-port=0"], False, None),
    ],
)  # fmt: skip
async def test_how_webhooks_are_reached(
    env: Env,
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    in_cluster: bool,
    expected: WebhookSettings | None,
) -> None:
    for name, value in (("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("KUBERNETES_SERVICE_PORT", "443")):
        monkeypatch.setenv(name, value) if in_cluster else monkeypatch.delenv(name, raising=False)
    app = App("one")
    app.validating(CustomResource("example.com/v1", Thing))(_check)
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        assert await webhook_settings(app, run.flag_set("run").parse(flags), cluster.client) == expected


@pytest.mark.real_loop(timeout=20)
async def test_the_address_of_this_machine_is_the_one_on_the_way_to_the_api_server() -> None:
    env = Env()
    transport = connect(env, master="http://127.0.0.1:6443", environ={})
    app = App("one")
    app.validating(CustomResource("example.com/v1", Thing))(_check)
    try:
        result = await webhook_settings(app, run.flag_set("run").parse(["--install"]), Client(transport, env))
    finally:
        await transport.close()
    assert result is not None
    assert result.url_host == "127.0.0.1"


@cases(
    "words, environment, expected",
    {
        "all namespaces": ((), None, ()),
        "namespaces of the environment": ((), " a, b ,", ("a", "b")),
        "an empty variable: all": ((), "", ()),
        "flags win": (("--namespaces=c",), "a", ("c",)),
    },
)
def test_the_namespaces_that_are_watched(
    words: tuple[str, ...], environment: str | None, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(run.WATCH_NAMESPACE, raising=False)
    if environment is not None:
        monkeypatch.setenv(run.WATCH_NAMESPACE, environment)
    parsed = run.flag_set("run").parse(["operator.py", *words])
    assert run._settings(parsed, None).namespaces == expected


def test_the_namespace_of_a_pod(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("of-the-account\n")
    assert in_cluster.namespace(tmp_path, {}) == "of-the-account"
    assert in_cluster.namespace(tmp_path, {"POD_NAMESPACE": "of-the-pod"}) == "of-the-pod"
    assert in_cluster.namespace(tmp_path / "nowhere", {}) == ""


def test_the_log_may_be_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = f"--kubeconfig={tmp_path / 'nowhere'}"
    off = ("--metrics-bind-address=0", "--health-probe-bind-address=0")
    assert main(["run", str(EXAMPLE), nowhere, *off, "--logging-format=json"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "nowhere" in json.loads(line)["err"]
    assert main(["run", str(EXAMPLE), "--dev", "--logging-format=yaml"]) == 2
    assert '--logging-format is text or json, got "yaml"' in capsys.readouterr().err
