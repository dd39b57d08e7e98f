"""Makes the pictures of ``docs/ui.md``: ``python scripts/make_screenshots.py``, with chromium on the PATH.

Starts a plane with some workloads, one of them in a rollout that does not get on, and takes the pictures of it. They
are written with few colours, and replace those in ``docs/images``.
"""

import json
import re
import ssl
import subprocess
import sys
import tempfile
import time  # noqa: TID251  # pictures are of a real clock
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.programs import pilothouse  # noqa: E402  # the path is set above
from tests.ui.browser import Browser, Tab  # noqa: E402

IMAGES = ROOT / "docs" / "images"
SIMULATED = "simulated.pilothouse.dev"


def workload(kind: str, name: str, replicas: int, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """A workload of pods that do as the annotations say."""
    metadata = {"labels": {"app": name}, "annotations": annotations or {}}
    template = {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": f"{name}:1"}]}}
    spec: dict[str, Any] = {"selector": {"matchLabels": {"app": name}}, "template": template}
    if kind != "DaemonSet":
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


MANIFESTS = [
    workload("Deployment", "shop", 12),
    workload("Deployment", "cart", 8),
    workload("Deployment", "payment", 4, {f"{SIMULATED}/run-time": "2s,2s,forever", f"{SIMULATED}/exit-code": "1"}),
    workload("StatefulSet", "orders-db", 3),
    workload("DaemonSet", "log-agent", 0),
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "import", "namespace": "default"},
        "spec": {
            "completions": 10,
            "parallelism": 3,
            "template": {
                "metadata": {"annotations": {f"{SIMULATED}/run-time": "4s"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "import:1"}]},
            },
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "training", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "a:1", "resources": {"requests": {"nvidia.com/gpu": "4"},
                 "limits": {"nvidia.com/gpu": "4"}}}]},
    },
]  # fmt: skip


def main() -> None:
    """Make all pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        (directory / "all.yaml").write_text("---\n".join(json.dumps(each) + "\n" for each in MANIFESTS))
        words = ("up", "--ui", "--port=0", "--nodes=12", "-f", "all.yaml")
        with pilothouse(directory, *words) as program, Browser() as browser:
            link = program.until(r"https://\S+/ui/#token=\S+")
            program.until("shop in default: 12 of 12")
            token = re.findall(r'"?token"?: "?([\w-]+)', (directory / ".pilothouse/kubeconfig").read_text())[0]
            tab = browser.open()
            tab.size(1200, 760)
            tab.go(link)
            tab.find(".node", "node-0")
            time.sleep(8)
            begin_rollout(link.partition("/ui/")[0], token)
            tab.find("#connection", "live")
            time.sleep(3)
            pictures(tab)


def begin_rollout(server: str, token: str) -> None:
    """The new pods of the shop can't get their image, and one node is cordoned."""
    annotations = {f"{SIMULATED}/waiting": "ImagePullBackOff"}
    spec = {"containers": [{"name": "main", "image": "shop:2"}]}
    patch(server, token, "/apis/apps/v1/namespaces/default/deployments/shop",
          {"spec": {"template": {"metadata": {"annotations": annotations}, "spec": spec}}})  # fmt: skip
    patch(server, token, "/apis/apps/v1/namespaces/default/deployments/cart", {"spec": {"replicas": 5}})
    patch(server, token, "/api/v1/nodes/node-7", {"spec": {"unschedulable": True}})


def patch(server: str, token: str, path: str, body: dict[str, Any]) -> None:
    """Change an object."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
    request = urllib.request.Request(server + path, json.dumps(body).encode(), headers, method="PATCH")
    urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=20).close()


def pictures(tab: Tab) -> None:
    """Take the pictures."""
    take(tab, "cluster-light")
    tab.prefer(prefers_color_scheme="dark")
    take(tab, "cluster-dark")
    tab.press("2")
    tab.find(".workload", "shop")
    tab.click(".workload:has(a[href*='deployments/default/shop']) summary")
    take(tab, "workloads-dark")
    tab.prefer(prefers_color_scheme="light")
    tab.click(".workload a", "cart")
    tab.click("#tab-history")
    tab.find(".origin", "kubernetes-admin")
    take(tab, "history-light")
    tab.press("5")
    tab.find(".reasons", "nvidia")
    take(tab, "scheduler-light")
    tab.press("[")
    tab.press("1")
    tab.find("#past", "In the past")
    take(tab, "past-light")
    tab.press("n")
    tab.size(360, 740, 1.5)
    tab.prefer(prefers_color_scheme="dark")
    tab.press("2")
    tab.find(".workload", "shop")
    take(tab, "phone-dark")


def take(tab: Tab, name: str) -> None:
    """One picture, with a palette in place of true colour."""
    time.sleep(0.8)  # bars move
    tab.run("scrollTo(0, 0)")
    path = IMAGES / f"ui-{name}.png"
    tab.picture(path)
    subprocess.run(["pngquant", "--force", "--speed=1", "--output", str(path), "64", str(path)], check=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
