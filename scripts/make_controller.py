"""Write the skeleton of a built-in controller: ``make controller NAME=foo [AREA=cleanup] [RESOURCE=configmaps]``.

With ``OWNS=pods`` it is a controller whose objects own pods.

The package, its test and its page come from ``scripts/controller_skeleton``; the controller is entered in
``controllers/registry.py`` and ``deploy/``, there with a role unless upstream has the controller. The skeleton is a
small controller that works, and its tests pass: it labels the objects of one resource and reports the result.
The one that owns pods keeps their number (``controller_skeleton/owner``). docs/controllers/adding.md says how to go on
from there.
"""

import argparse
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from string import Template
from typing import Any

import pilothouse.api
from pilothouse.api.kinds import Kind
from pilothouse.controllermanager.compatibility import upstream_names
from pilothouse.controllers.registry import DESCRIPTORS

ROOT = Path(__file__).resolve().parents[1]
SKELETON = Path(__file__).parent / "controller_skeleton"
CONTROLLERS = ROOT / "src/pilothouse/controllers"
_ACCESS = {"accessModes": ["ReadWriteOnce"]}
_POD = {"containers": [{"name": "main", "image": "pause"}]}
_TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": _POD}
_SELECTING = {"selector": {"matchLabels": {"app": "a"}}, "template": _TEMPLATE}
_JOB = {"template": {"spec": {**_POD, "restartPolicy": "Never"}}}
FIELDS: dict[str, dict[str, Any]] = {
    "pods": {"spec": _POD},
    "services": {"spec": {"ports": [{"port": 80}]}},
    "persistentvolumeclaims": {"spec": {**_ACCESS, "resources": {"requests": {"storage": "1Gi"}}}},
    "persistentvolumes": {"spec": {**_ACCESS, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}}},
    "replicationcontrollers": {"spec": {"selector": {"app": "a"}, "template": _TEMPLATE}},
    "deployments.apps": {"spec": _SELECTING},
    "replicasets.apps": {"spec": _SELECTING},
    "daemonsets.apps": {"spec": _SELECTING},
    "statefulsets.apps": {"spec": {**_SELECTING, "serviceName": "a"}},
    "jobs.batch": {"spec": _JOB},
    "cronjobs.batch": {"spec": {"schedule": "@daily", "jobTemplate": {"spec": _JOB}}},
    "endpointslices.discovery.k8s.io": {"addressType": "IPv4", "endpoints": []},
    "storageclasses.storage.k8s.io": {"provisioner": "example.com/a"},
}
"""What the object of the generated test has besides its name, by resource."""


class Refused(Exception):
    """The controller cannot be written; the message says why."""


def kinds() -> dict[str, tuple[str, str, Kind[Any]]]:
    """Every kind that controllers can watch: module and constant by ``resource.group``."""
    found: dict[str, tuple[str, str, Kind[Any]]] = {}
    for module in pkgutil.iter_modules(pilothouse.api.__path__):
        for constant, value in vars(importlib.import_module(f"pilothouse.api.{module.name}")).items():
            if isinstance(value, Kind) and value.view.__module__ in (
                f"pilothouse.api.{module.name}",
                "pilothouse.api.meta",
            ):
                found.setdefault(value.group_resource, (module.name, constant, value))
    return found


def areas() -> list[str]:
    """The folders of controllers."""
    return sorted(path.parent.name for path in CONTROLLERS.glob("*/__init__.py") if path.parent.name != "shared")


def names_of(name: str, area: str, resource: str, *, owns_pods: bool = False) -> dict[str, str]:
    """What the templates are filled with. Raises ``Refused``."""
    short = name.removesuffix("-controller")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", short):
        raise Refused(f"{name!r} is not a name of a controller: lower case words with hyphens between them")
    if area not in areas():
        raise Refused(f"there is no area {area!r}, there are {', '.join(areas())}")
    if resource not in kinds():
        raise Refused(f"no view of {resource!r} is in pilothouse.api, there are {', '.join(sorted(kinds()))}")
    package = short.replace("-", "_")
    if any(one.name == f"{short}-controller" for one in DESCRIPTORS) or [*CONTROLLERS.glob(f"*/{package}/__init__.py")]:
        raise Refused(f"there is a controller {short} already")
    module, constant, kind = kinds()[resource]
    if owns_pods and not (kind.namespaced and resource != "pods"):
        raise Refused(f"{resource} cannot own pods: a kind with a namespace can, such as configmaps")
    body = {"metadata": {"name": "a"}, **FIELDS.get(resource, {})}
    prefix = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
    is_upstreams = f"{short}-controller" in upstream_names()
    return {
        "name": f"{short}-controller",
        "package": package,
        "area": area,
        "class_name": "".join(word.capitalize() for word in short.split("-")) + "Controller",
        "label": f"example.com/{short}",
        "module": module,
        "constant": constant,
        "kind": kind.kind,
        "resource": kind.resource,
        "group": kind.group,
        "view": kind.view.__name__,
        "key": "namespace/name" if kind.namespaced else "name",
        "collection": f"{prefix}/{'namespaces/default/' if kind.namespaced else ''}{kind.resource}",
        "body": repr(body),
        "upstream": " Upstream: v1.36 ``pkg/controller/…``." if is_upstreams else "",
        "follows": "Follows `pkg/controller/…` of Kubernetes v1.36. " if is_upstreams else "Only pilothouse has it. ",
        "differences": "" if is_upstreams else "* Upstream has no such controller.\n",
    }


def template(name: str, *, owns_pods: bool = False) -> Template:
    """The one of controllers that own pods, if they have one of their own."""
    special = SKELETON / "owner" / f"{name}.txt"
    return Template((special if owns_pods and special.exists() else SKELETON / f"{name}.txt").read_text("utf-8"))


def write_files(names: dict[str, str], *, owns_pods: bool = False) -> list[Path]:
    """The package, its test and its page."""
    package, page = CONTROLLERS / names["area"] / names["package"], names["package"]
    targets = {
        "__init__.py": package / "__init__.py",
        "decide.py": package / "decide.py",
        "status.py": package / "status.py",
        "controller.py": package / "controller.py",
        "test.py": ROOT / "tests/controllers" / page / f"test_{page}.py",
        "page.md": ROOT / "docs/controllers" / f"{page}.md",
    }
    for name, target in targets.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(template(name, owns_pods=owns_pods).substitute(names), encoding="utf-8")
    return list(targets.values())


def register(names: dict[str, str]) -> Path:
    """The import and the entry in ``controllers/registry.py``."""
    path, constant = CONTROLLERS / "registry.py", names["package"].upper()
    imported = f"from pilothouse.controllers.{names['area']}.{names['package']} import DESCRIPTOR as {constant}\n"
    text = path.read_text("utf-8")
    if re.search(rf"\b{constant}\b", text):
        raise Refused(f"{path.name} has a {constant} already")
    first = text.index("from pilothouse.controllers.")
    text = text[:first] + imported + text[first:]
    end = text.index("\n)\n", text.index("DESCRIPTORS: tuple"))
    path.write_text(f"{text[:end]}\n    {constant},{text[end:]}", encoding="utf-8")
    return path


def grant(names: dict[str, str], *, owns_pods: bool = False) -> list[Path]:
    """The service account in ``deploy/rbac.yaml``, and the name among the ``--controllers`` of the Deployment. API
    servers make the roles of upstream's controllers; that of any other is written here, too."""
    rbac, deployment = ROOT / "deploy/rbac.yaml", ROOT / "deploy/deployment.yaml"
    text = with_account(rbac.read_text("utf-8"), names["name"])
    if names["name"] not in upstream_names():
        rules = template("rules.yaml", owns_pods=owns_pods).substitute(names)
        text += template("role.yaml").substitute(names, rules=rules)
    rbac.write_text(text, encoding="utf-8")

    def with_name(found: re.Match[str]) -> str:
        return found[1] + ",".join(sorted({*found[2].split(","), names["name"]}))

    text = re.sub(r"(- --controllers=)(\S+)", with_name, deployment.read_text("utf-8"))
    deployment.write_text(text, encoding="utf-8")
    return [rbac, deployment]


def with_account(text: str, account: str) -> str:
    """Every list of accounts, which are sorted, with this one."""
    lines: list[str] = []
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("      - "):
            block.append(line)
            continue
        if "      - replicaset-controller" in block:
            block = sorted({*block, f"      - {account}"})
        lines += [*block, line]
        block = []
    return "\n".join(lines[:-1]) + "\n"


def main() -> None:
    """Write everything, and say what is left to do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="upstream's name, with or without -controller")
    parser.add_argument("--area", default="cleanup", help=f"one of {', '.join(areas())}")
    parser.add_argument("--resource", default="configmaps", help="what it syncs, such as deployments.apps")
    parser.add_argument("--owns", default="", choices=("", "pods"), help="pods: its objects own pods")
    given = parser.parse_args()
    owns_pods = given.owns == "pods"
    try:
        names = names_of(given.name, given.area, given.resource, owns_pods=owns_pods)
        written = [register(names), *write_files(names, owns_pods=owns_pods), *grant(names, owns_pods=owns_pods)]
    except Refused as refused:
        sys.exit(f"make_controller: {refused}")
    sources = [str(path) for path in written if path.suffix == ".py"]
    for command in (["check", "--quiet", "--select", "I", "--fix"], ["format", "--quiet"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, *sources], cwd=ROOT, check=True)
    for path in written:
        print(path.relative_to(ROOT))
    print("Next: docs/controllers/adding.md, from section 2 on. What is left to do:")
    if given.resource not in FIELDS:
        print("OBJECT in the test has a name only: add fields that the API server requires of this kind, if any.")
    print(f"docs/operating.md must name {names['package'].replace('_', '-')}, or a test fails.")
    if names["name"] in upstream_names():
        print("Upstream has this controller: its alias, gates and default are checked (section 7).")
    else:
        print("Upstream has no such controller: its role is at the end of deploy/rbac.yaml (section 7).")


if __name__ == "__main__":
    main()
