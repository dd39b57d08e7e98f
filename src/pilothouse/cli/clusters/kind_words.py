"""Commands of kind and of other tools, and their equivalents here."""

from collections.abc import Mapping, Sequence

_VERSION = "every cluster is Kubernetes' version of this release (`pilothouse version`)"
_NODES = "--nodes is the number of nodes"
_NAME = "the name is an argument: `pilothouse create cluster NAME`"
_FLAGS: Mapping[str, str] = {
    "--agents": _NODES,
    "--servers": _NODES,
    "--workers": _NODES,
    "--driver": "there is none: a cluster is a process, without containers and virtual machines",
    "--kubernetes-version": _VERSION,
    "--profile": _NAME,
    "-p": _NAME,
    "--config": "there is no file of the cluster; its flags are those of `pilothouse up`, such as --nodes 3",
    "--image": f"there are no images: {_VERSION}",
    "--wait": "`pilothouse create cluster` waits until the cluster is ready; --timeout is for the manifests",
    "--data-dir": "a cluster in the background has a directory of its own, which `pilothouse list` shows; "
    "`pilothouse up` takes --data-dir",
}
OBJECTS: Mapping[str, str] = {
    "cluster": "`pilothouse list` lists the clusters",
    "clusters": "`pilothouse list` lists the clusters",
    "kubeconfig": "`pilothouse kubeconfig` prints it",
}
"""Arguments of ``get`` that are not resource types."""
COMMANDS: Mapping[str, str] = {
    "export": "`pilothouse kubeconfig --merge` adds the context to the kubeconfig, `pilothouse logs` prints the log",
    "ls": "`pilothouse list` lists the clusters",
    "status": "`pilothouse list` lists the clusters",
    "apply": "`pilothouse load -f FILE` applies manifests",
    "dev": "`pilothouse run FILE --dev` runs an operator, and restarts it when its code changes",
    "describe": "`pilothouse why TYPE/NAME` explains an object, `pilothouse get TYPE NAME -o yaml` prints it",
}
"""Commands that have another name here, or are flags."""


def of_images(args: Sequence[str]) -> str:
    """The error for ``load docker-image IMAGE``; empty for other arguments of ``load``."""
    if len(args) > 1 and args[0] in {"docker-image", "image-archive"} and not args[1].startswith("-"):
        return "there are no images to load: simulated nodes start no containers and pull nothing"
    return ""


def of_flags(program: str, args: Sequence[str]) -> str:
    """The error for a flag that kind, k3d or minikube has and ``program`` does not; empty if there is none."""
    for at, word in enumerate(args):
        if word == "--":
            break
        flag, sign, value = word.partition("=")
        if flag in _FLAGS and program.endswith("create"):
            return f"unknown flag: {flag}: {_FLAGS[flag]}"
        following = value if sign else next(iter(args[at + 1 :]), "")
        if flag == "--name" or (flag == "-n" and not _is_number(following)):
            hint = "unknown flag: --name" if flag == "--name" else f'-n is --nodes, a whole number, got "{following}"'
            if flag == "-n" and not program.endswith("create"):
                hint = "unknown shorthand flag: -n"
            return f"{hint}: the name is an argument: `{program} cluster {following or 'NAME'}`"
    return ""


def of_selection(program: str, args: Sequence[str]) -> str:
    """The error for a flag that names the cluster, as kubectl's ``--context`` and kind's ``--name`` do, for a command
    that takes the cluster as an argument; empty if there is none."""
    for at, word in enumerate(args):
        if word == "--":
            break
        flag, sign, value = word.partition("=")
        if flag in {"--context", "--name"}:
            name = (value if sign else next(iter(args[at + 1 :]), "")).removeprefix("pilothouse-")
            return f"unknown flag: {flag}: the cluster is an argument: `{program} {name or 'NAME'}`"
    return ""


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isascii() and text.removeprefix("-").isdigit()
