"""``pilothouse top`` with a real kube-apiserver, which has no history with origins and an older CronJob API."""

import pytest
from tests.cli.screen.screens import shown
from tests.real_cluster import RealCluster
from tests.why.cluster import deployment

from pilothouse.client import Client
from pilothouse.client.connect import connect
from pilothouse.env import Env

CRON_JOB = """
apiVersion: batch/v1beta1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: main, image: busybox}]
"""


@pytest.mark.real_loop(timeout=90)
async def test_a_real_api_server(env: Env, real_cluster: RealCluster) -> None:
    namespace = real_cluster.namespace("top")
    real_cluster.request("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("web", replicas=2))
    real_cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=CRON_JOB)
    transport = connect(env, kubeconfig=str(real_cluster.kubeconfig))
    try:
        async with shown(Client(transport, env), namespace=namespace) as screen:
            await screen.press("2")
            await screen.until(r"Deployment web +0/2")
            await screen.until(r"CronJob nightly .*never started")
            await screen.press("end", "h")
            await screen.until(r"ADDED|EXISTED")
            await screen.press("w")
            await screen.until("this API server keeps no record of it")
            await screen.press("4")
            await screen.until("does not serve the metrics of kube-controller-manager")
            await screen.press("t")
            await screen.type("5m")
            await screen.until("only pilothouse's API server knows which resourceVersion was current")
    finally:
        await transport.close()
