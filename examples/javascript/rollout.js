// The program under test: it waits until a Deployment is rolled out, as `kubectl rollout status` does.

import { Watch } from "@kubernetes/client-node";

/** Resolve with the Deployment once all of its replicas are updated and available. */
export async function rolledOut(config, namespace, name, seconds = 10) {
  let resolve, reject;
  const done = new Promise((...both) => ([resolve, reject] = both));
  const seen = (_type, found) => {
    const { replicas } = found.spec;
    const { observedGeneration, updatedReplicas, availableReplicas } = found.status ?? {};
    if (observedGeneration >= found.metadata.generation && updatedReplicas === replicas && availableReplicas === replicas)
      resolve(found);
  };
  const path = `/apis/apps/v1/namespaces/${namespace}/deployments`;
  const watch = await new Watch(config).watch(path, { fieldSelector: `metadata.name=${name}` }, seen, (error) => {
    if (error) reject(error);
  });
  const timer = setTimeout(() => reject(new Error(`${name} is not rolled out after ${seconds} s`)), seconds * 1000);
  try {
    return await done;
  } finally {
    clearTimeout(timer);
    watch.abort();
  }
}
