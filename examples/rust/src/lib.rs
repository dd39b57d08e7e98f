//! The program under test: it waits until a Deployment is rolled out, as `kubectl rollout status` does.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::runtime::wait::await_condition;
use kube::Api;

/// Returns the Deployment once all of its replicas are updated and available.
pub async fn rolled_out(deployments: Api<Deployment>, name: &str, limit: Duration) -> Result<Deployment, String> {
    let waiting = await_condition(deployments, name, |found: Option<&Deployment>| found.is_some_and(is_complete));
    match tokio::time::timeout(limit, waiting).await {
        Ok(Ok(Some(found))) => Ok(found),
        Ok(Ok(None)) => Err(format!("{name} is gone")),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("{name} is not rolled out after {limit:?}")),
    }
}

fn is_complete(found: &Deployment) -> bool {
    let (Some(spec), Some(status)) = (&found.spec, &found.status) else {
        return false;
    };
    status.observed_generation >= found.metadata.generation
        && status.updated_replicas == spec.replicas
        && status.available_replicas == spec.replicas
}
