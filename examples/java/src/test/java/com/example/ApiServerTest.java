package com.example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.fabric8.kubeapitest.junit.EnableKubeAPIServer;
import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** On etcd and kube-apiserver of KUBE_API_TEST_DIR, which fabric8's kube-api-test starts: an API server and nothing else. */
@EnableKubeAPIServer
class ApiServerTest {
  static KubernetesClient client;

  @Test
  void aChangeOfAnOldVersionIsAConflict() {
    var old = client.resource(settings("conflict", Map.of("color", "red"))).create();
    client.resource(new ConfigMapBuilder(old).addToData("color", "green").build()).update();
    var late = new ConfigMapBuilder(old).addToData("color", "blue").build();
    var error = assertThrows(KubernetesClientException.class, () -> client.resource(late).update());
    assertEquals(409, error.getCode());
  }

  @Test
  void anInformerSeesWhatIsApplied() throws Exception {
    try (var informer = client.configMaps().inNamespace("default").inform()) {
      client.resource(settings("applied", Map.of("color", "red"))).serverSideApply();
      client.configMaps().inNamespace("default").withName("applied")
          .patch(PatchContext.of(PatchType.JSON_MERGE), "{\"data\": {\"size\": \"small\"}}");
      var seen = client.configMaps().inNamespace("default").withName("applied")
          .waitUntilCondition(map -> map != null && map.getData().size() == 2, 10, TimeUnit.SECONDS);
      assertEquals(Map.of("color", "red", "size", "small"), seen.getData());
      var deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
      while (!seen.equals(informer.getStore().getByKey("default/applied"))) {
        if (System.nanoTime() > deadline) {
          throw new AssertionError("the informer has " + informer.getStore().list());
        }
        TimeUnit.MILLISECONDS.sleep(20);
      }
    }
  }

  private static ConfigMap settings(String name, Map<String, String> data) {
    return new ConfigMapBuilder()
        .withNewMetadata().withNamespace("default").withName(name).endMetadata()
        .withData(data)
        .build();
  }
}
