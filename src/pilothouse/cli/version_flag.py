"""The output of ``--version``, for programs with Kubernetes' names (component-base ``version/verflag``, v0.36)."""

import platform

import pilothouse
from pilothouse.machinery.flag_types import VersionWord


def version_text(word: VersionWord) -> str:
    """The line to print before the program exits; empty if it continues."""
    if word not in {"true", "raw"}:
        return ""
    version = word.reported or f"{pilothouse.KUBERNETES_VERSION}+pilothouse.{pilothouse.__version__}"
    if word == "true":
        return f"Kubernetes {version}"
    major, minor, _patch = pilothouse.KUBERNETES_VERSION.removeprefix("v").split(".")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    fields = {
        "Major": major,
        "Minor": minor,
        # Empty, as upstream's: only a server's /version has them.
        "EmulationMajor": "",
        "EmulationMinor": "",
        "MinCompatibilityMajor": "",
        "MinCompatibilityMinor": "",
        "GitVersion": version,
        "GitCommit": "",
        "GitTreeState": "",
        "BuildDate": "",
        "GoVersion": "",
        "Compiler": f"{platform.python_implementation()} {platform.python_version()}",
        "Platform": f"{platform.system().lower()}/{machine}",
    }
    return "version.Info{" + ", ".join(f'{name}:"{value}"' for name, value in fields.items()) + "}"
