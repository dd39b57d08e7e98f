"""The pod template hash equals upstream's."""

import time
from typing import Any

import msgspec
from tests.tables import cases

from pilothouse.machinery.go_dump import dump_for_hash
from pilothouse.machinery.template_hash import fnv32, fnv32a, safe_text, template_hash


def template(app: str, image: str, **spec: Any) -> bytes:
    """A template as the API server stores it."""
    container = {
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "name": "main",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    return msgspec.json.encode(
        {
            "metadata": {"labels": {"app": app}},
            "spec": {
                "containers": [container],
                "dnsPolicy": "ClusterFirst",
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "terminationGracePeriodSeconds": 30,
                **spec,
            },
        }
    )


def daemon(pool: str, image: str) -> bytes:
    tolerations = [{"key": "dedicated", "operator": "Exists"}]
    return template("agent", image, nodeSelector={pool: "yes"}, tolerations=tolerations)


@cases(
    "stored, expected",
    {
        "04a: a DaemonSet": (daemon("poola", "registry.k8s.io/pause:3.10"), "f5dc55c7"),
        "04b: another node selector": (daemon("poolb", "registry.k8s.io/pause:3.10"), "98445bc9d"),
        "04b: another image": (daemon("poolb", "registry.k8s.io/pause:3.11"), "bf5b6c989"),
        "04c: ten digits": (daemon("poolc", "registry.k8s.io/pause:3.10"), "74bff888c5"),
        "04c: nine digits": (daemon("poolc", "registry.k8s.io/pause:3.11"), "c9c9749bd"),
        "05a: a Deployment": (template("web", "registry.k8s.io/pause:3.10"), "6fffd974d5"),
    },
)
def test_hash_is_upstreams(stored: bytes, expected: str) -> None:
    """Recorded from kube-controller-manager v1.36.2."""
    assert template_hash(stored) == expected


def test_collision_count_changes_the_hash() -> None:
    stored = daemon("poola", "x")
    assert len({template_hash(stored), template_hash(stored, 0), template_hash(stored, 1)}) == 3


def test_hash_is_independent_of_json_formatting() -> None:
    value = msgspec.json.decode(daemon("poola", "x"))
    turned = {key: value[key] for key in reversed(value)}
    assert template_hash(msgspec.json.encode(turned)) == template_hash(daemon("poola", "x"))


@cases(
    "text, expected",
    {
        "thousandths": ("100m", (100, -3, "100m", "DecimalSI")),
        "a plain number": ("2", (2, 0, "2", "DecimalSI")),
        "binary, canonical text kept": ("1500Mi", (1500 << 20, 0, "1500Mi", "BinarySI")),
        "binary, divisible by eight: no text kept": ("512Mi", (512 << 20, 0, "", "BinarySI")),
        "thousands": ("5k", (5, 3, "5k", "DecimalSI")),
    },
)
def test_quantities_are_printed_as_parsed(text: str, expected: tuple[int, int, str, str]) -> None:
    """By reading v0.36 ``ParseQuantity``."""
    value, scale, kept, style = expected
    spec = {"containers": [{"name": "a", "resources": {"requests": {"cpu": text}}}]}
    assert (
        f"map[cpu:{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} "
        f"d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){kept} Format:(resource.Format){style}}}]"
    ) in dump_for_hash({"spec": spec}, "v1.PodTemplateSpec")


def test_hashed_fields_are_known() -> None:
    assert fnv32a(b"") == 2166136261
    assert fnv32a(b"a") == 0xE40C292C  # from the FNV test vectors
    assert safe_text("0123456789") == "456789bcdf"


def test_the_hash_of_large_templates_takes_little_time() -> None:
    began = time.process_time()
    assert fnv32(b"x" * 20_000_000) != fnv32(b"y" * 20_000_000)
    assert fnv32a(b"x" * 20_000_000) != fnv32a(b"y" * 20_000_000)
    assert time.process_time() - began < 1.0
