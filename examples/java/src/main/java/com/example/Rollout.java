package com.example;

import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.client.KubernetesClient;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.TimeUnit;

/** The program under test: it waits until a Deployment is rolled out, as {@code kubectl rollout status} does. */
public final class Rollout {
  private Rollout() {}

  /**
   * Returns the Deployment once all of its replicas are updated and available.
   *
   * @throws io.fabric8.kubernetes.client.KubernetesClientTimeoutException if they are not in time
   */
  public static Deployment await(KubernetesClient client, String namespace, String name, Duration limit) {
    return client.apps().deployments().inNamespace(namespace).withName(name)
        .waitUntilCondition(Rollout::isComplete, limit.toMillis(), TimeUnit.MILLISECONDS);
  }

  static boolean isComplete(Deployment found) {
    if (found == null || found.getStatus() == null) {
      return false;
    }
    var status = found.getStatus();
    var replicas = found.getSpec().getReplicas();
    return Objects.requireNonNullElse(status.getObservedGeneration(), 0L) >= found.getMetadata().getGeneration()
        && replicas.equals(status.getUpdatedReplicas())
        && replicas.equals(status.getAvailableReplicas());
  }
}
