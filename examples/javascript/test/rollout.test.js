import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { AppsV1Api, CoreV1Api, KubeConfig } from "@kubernetes/client-node";

import { startCluster } from "../cluster.js";
import { rolledOut } from "../rollout.js";

const namespace = "default";
const config = new KubeConfig();
let cluster, apps, core;

before(async () => {
  cluster = await startCluster("--nodes=2");
  config.loadFromFile(cluster.kubeconfig);
  apps = config.makeApiClient(AppsV1Api);
  core = config.makeApiClient(CoreV1Api);
});
after(() => cluster.stop());

function deployment(name, image) {
  const labels = { app: name };
  const template = { metadata: { labels }, spec: { containers: [{ name: "main", image }] } };
  return { metadata: { name }, spec: { replicas: 3, selector: { matchLabels: labels }, template } };
}

test("a Deployment is rolled out, and its pods run on both nodes", async () => {
  await apps.createNamespacedDeployment({ namespace, body: deployment("web", "nginx") });
  const found = await rolledOut(config, namespace, "web");
  assert.equal(found.status.readyReplicas, 3);
  const pods = await core.listNamespacedPod({ namespace, labelSelector: "app=web" });
  assert.deepEqual(new Set(pods.items.map((pod) => pod.status.phase)), new Set(["Running"]));
  assert.deepEqual(new Set(pods.items.map((pod) => pod.spec.nodeName)), new Set(["node-0", "node-1"]));
});

test("an image that is not there is an error, and not a wait without end", async () => {
  await apps.createNamespacedDeployment({ namespace, body: deployment("missing", "nginx:404") });
  await assert.rejects(rolledOut(config, namespace, "missing", 1), /not rolled out after 1 s/);
});

test("an invalid object is rejected as kube-apiserver does", async () => {
  const body = deployment("wrong", "nginx");
  body.spec.replicas = -1;
  await assert.rejects(apps.createNamespacedDeployment({ namespace, body }), (error) => error.code === 422);
});
