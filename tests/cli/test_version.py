"""``--version``: output, reported versions and errors."""

from pathlib import Path

import pytest
from tests.programs import pilothouse, until
from tests.tables import cases

from pilothouse import KUBERNETES_VERSION, __version__
from pilothouse.cli import main

OWN = f"{KUBERNETES_VERSION}+pilothouse.{__version__}"


@cases(
    "words, printed",
    {
        "--version": (["--version"], f"Kubernetes {OWN}"),
        "--version=T": (["--version=T"], f"Kubernetes {OWN}"),
        "override and exit": (["--version=v1.36.2-custom", "--version"], "Kubernetes v1.36.2-custom"),
        "the last": (["--version=v1.36.2+a", "--version=v1.36.2+b", "--version"], "Kubernetes v1.36.2+b"),
        "own version": ([f"--version={OWN}", "--version"], f"Kubernetes {OWN}"),
    },
)
def test_versions(capsys: pytest.CaptureFixture[str], words: list[str], printed: str) -> None:
    """``TestVersionFlag``, component-base ``version/verflag/verflag_test.go``, v0.36."""
    assert main(["manager", *words]) == 0
    assert capsys.readouterr().out.strip() == printed


@cases(
    "words, code, out, err",
    {
        "version": (["version"], 0, f"pilothouse v{__version__} (", ""),
        "--version": (["--version"], 0, f"pilothouse v{__version__} (", ""),
        "--help": (["version", "--help"], 0, "Prints the version.", ""),
        "help": (["help", "version"], 0, "Prints the version.", ""),
        "a flag": (["version", "--client"], 2, "", "Error: unknown flag: --client\n"),
        "an argument": (
            ["version", "x"],
            2,
            "",
            'Error: "pilothouse version" does not take any arguments, got ["x"]',
        ),
    },
)
def test_the_command(capsys: pytest.CaptureFixture[str], words: list[str], code: int, out: str, err: str) -> None:
    assert main(words) == code
    printed = capsys.readouterr()
    assert printed.out.startswith(out)
    assert printed.err.startswith(err)


def test_the_raw_version_has_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manager", "--version=v1.36.2+abc", "--version=raw"]) == 0
    assert capsys.readouterr().out.startswith(
        'version.Info{Major:"1", Minor:"36", EmulationMajor:"", EmulationMinor:"", MinCompatibilityMajor:"", '
        'MinCompatibilityMinor:"", GitVersion:"v1.36.2+abc", GitCommit:"", '
    )


@pytest.mark.parametrize("version", ["v1.36.2+abc", "v1.36.2-rc.1"])
def test_log_starts_with_the_reported_version(tmp_path: Path, version: str) -> None:
    with pilothouse(tmp_path, "apiserver", "--port=0", "--kubeconfig=k"):
        until((tmp_path / "k").exists, "the server is up")
        flags = ["--kubeconfig=k", "--secure-port=0", f"--version={version}", "--version=false"]
        with pilothouse(tmp_path, "manager", *flags) as manager:
            assert manager.until(r'"Starting" version="[^"]*"') == f'"Starting" version="{version}"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("vX", 'could not parse "vX" as version', id="not a version"),
        pytest.param("v1.36", 'illegal version string "v1.36"', id="without patch version"),
        pytest.param("v1.036.2", 'illegal zero-prefixed version component "036" in "v1.036.2"', id="octal"),
        pytest.param("v1.36.2-01", 'illegal zero-prefixed version component "01" in "v1.36.2-01"', id="octal behind"),
        pytest.param(
            "v1.36.2_x", 'could not parse pre-release/metadata (_x) in version "v1.36.2_x"', id="invalid pre-release"
        ),
        pytest.param("maybe", 'strconv.ParseBool: parsing "maybe": invalid syntax', id="not a boolean"),
        *(
            pytest.param(
                text, f'version "{text}" must match major/minor/patch of default version "{OWN}"', id=f"not {text}"
            )
            for text in ("v2.36.2", "v1.35.2", "v1.36.1")
        ),
    ],
)
def test_invalid_versions(capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    """``version/dynamic.go``, v0.36; the flag's own error, before any other option is read."""
    assert main(["manager", f"--version={text}", "--secure-port=-1"]) == 2
    assert f'invalid argument "{text}" for "--version" flag: {message}' in capsys.readouterr().err
