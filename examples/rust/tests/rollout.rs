mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::Cluster;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Error};
use pilothouse_example::rolled_out;

#[tokio::test]
async fn a_deployment_is_rolled_out_and_its_pods_run_on_both_nodes() {
    let cluster = Cluster::start(&["--nodes=2"]).await;
    let deployments = create(&cluster.client, "web", "nginx", 3).await.unwrap();
    let found = rolled_out(deployments, "web", Duration::from_secs(10)).await.unwrap();
    assert_eq!(found.status.unwrap().ready_replicas, Some(3));
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    let pods = pods.list(&ListParams::default().labels("app=web")).await.unwrap();
    let phases: BTreeSet<_> = pods.iter().map(|pod| pod.status.as_ref().unwrap().phase.as_deref().unwrap()).collect();
    assert_eq!(phases, BTreeSet::from(["Running"]));
    let nodes: BTreeSet<_> = pods.iter().map(|pod| pod.spec.as_ref().unwrap().node_name.as_deref().unwrap()).collect();
    assert_eq!(nodes, BTreeSet::from(["node-0", "node-1"]));
}

#[tokio::test]
async fn an_image_that_is_not_there_is_an_error_and_not_a_wait_without_end() {
    let cluster = Cluster::start(&[]).await;
    let deployments = create(&cluster.client, "missing", "nginx:404", 3).await.unwrap();
    let error = rolled_out(deployments, "missing", Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error, "missing is not rolled out after 1s");
}

#[tokio::test]
async fn an_invalid_object_is_rejected_as_by_kube_apiserver() {
    let cluster = Cluster::start(&["--nodes=0"]).await;
    match create(&cluster.client, "wrong", "nginx", -1).await {
        Err(Error::Api(response)) => assert_eq!(response.code, 422),
        other => panic!("expected 422, got {:?}", other.err()),
    }
}

async fn create(client: &Client, name: &str, image: &str, replicas: i32) -> kube::Result<Api<Deployment>> {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let deployment = serde_json::from_value(serde_json::json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    }))
    .unwrap();
    deployments.create(&PostParams::default(), &deployment).await?;
    Ok(deployments)
}
