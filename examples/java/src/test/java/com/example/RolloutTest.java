package com.example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.api.model.apps.DeploymentBuilder;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.KubernetesClientTimeoutException;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** On {@code pilothouse up}: with all controllers, the scheduler and simulated nodes. */
class RolloutTest {
  private static Cluster cluster;
  private static KubernetesClient client;

  @BeforeAll
  static void start() throws Exception {
    cluster = new Cluster("--nodes=2");
    client = new KubernetesClientBuilder().withConfig(Config.fromKubeconfig(cluster.kubeconfig().toFile())).build();
  }

  @AfterAll
  static void stop() throws Exception {
    if (client != null) {
      client.close();
    }
    if (cluster != null) {
      cluster.close();
    }
  }

  @Test
  void aDeploymentIsRolledOutAndItsPodsRunOnBothNodes() {
    create(deployment("web", "nginx", 3));
    var found = Rollout.await(client, "default", "web", Duration.ofSeconds(10));
    assertEquals(3, found.getStatus().getReadyReplicas());
    var pods = client.pods().inNamespace("default").withLabel("app", "web").list().getItems();
    assertEquals(Set.of("Running"), pods.stream().map(pod -> pod.getStatus().getPhase()).collect(Collectors.toSet()));
    assertEquals(
        Set.of("node-0", "node-1"), pods.stream().map(pod -> pod.getSpec().getNodeName()).collect(Collectors.toSet()));
  }

  @Test
  void anImageThatIsNotThereIsAnErrorAndNotAWaitWithoutEnd() {
    create(deployment("missing", "nginx:404", 3));
    assertThrows(
        KubernetesClientTimeoutException.class,
        () -> Rollout.await(client, "default", "missing", Duration.ofSeconds(1)));
  }

  @Test
  void anInvalidObjectIsRejectedAsByKubeApiserver() {
    var error = assertThrows(KubernetesClientException.class, () -> create(deployment("wrong", "nginx", -1)));
    assertEquals(422, error.getCode());
  }

  private static void create(Deployment deployment) {
    client.resource(deployment).create();
  }

  private static Deployment deployment(String name, String image, int replicas) {
    return new DeploymentBuilder()
        .withNewMetadata().withNamespace("default").withName(name).endMetadata()
        .withNewSpec()
        .withReplicas(replicas)
        .withNewSelector().withMatchLabels(Map.of("app", name)).endSelector()
        .withNewTemplate()
        .withNewMetadata().addToLabels("app", name).endMetadata()
        .withNewSpec().addNewContainer().withName("main").withImage(image).endContainer().endSpec()
        .endTemplate()
        .endSpec()
        .build();
  }
}
