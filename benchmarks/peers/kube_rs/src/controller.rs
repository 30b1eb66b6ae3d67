//! The Memcached controller.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{PartialObjectMeta, Patch, PatchParams},
    runtime::{
        WatchStreamExt,
        controller::{Action, Config, Controller},
        predicates,
        reflector::{self, ObjectRef, Store},
        watcher,
    },
};
use serde_json::json;
use tokio::sync::watch;

use crate::{
    desired::{self, CR_LABEL},
    health::Readiness,
    types::{Memcached, MemcachedStatus},
};

const FIELD_MANAGER: &str = "memcached-controller";

type PodMetadata = PartialObjectMeta<Pod>;

struct Context {
    client: Client,
    deployments: Store<Deployment>,
    pods: Store<PodMetadata>,
    leading: watch::Receiver<bool>,
    readiness: Readiness,
}

/// Work until `shutdown`. Nothing is written unless `leading`, but the caches are kept, so that a replica that
/// becomes the leader starts at once.
pub async fn run(
    client: Client,
    concurrency: u16,
    readiness: Readiness,
    leading: watch::Receiver<bool>,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) -> Result<()> {
    let (memcacheds, writer) = reflector::store();
    // A generation is new when the spec is: the controller is not triggered by its own writes of the status.
    let memcached_stream = watcher(Api::<Memcached>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .modify(|memcached| memcached.managed_fields_mut().clear())
        .reflect(writer)
        .inspect_ok(readiness.observer())
        .applied_objects()
        .predicate_filter(predicates::generation, Default::default());

    let (deployments, writer) = reflector::store();
    let deployment_stream = watcher(Api::<Deployment>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .modify(|deployment| deployment.managed_fields_mut().clear())
        .reflect(writer)
        .inspect_ok(readiness.observer())
        .touched_objects();

    let (pods, writer) = reflector::store();
    let pod_stream = watcher(Api::<PodMetadata>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .modify(|pod| pod.managed_fields_mut().clear())
        .reflect(writer)
        .inspect_ok(readiness.observer())
        .touched_objects();

    let elected = elections(leading.clone());
    let context = Arc::new(Context { client, deployments, pods, leading, readiness });
    Controller::for_stream(memcached_stream, memcacheds)
        .owns_stream(deployment_stream)
        .watches_stream(pod_stream, memcached_of)
        .reconcile_all_on(elected)
        .with_config(Config::default().concurrency(concurrency))
        .graceful_shutdown_on(shutdown)
        .run(reconcile, error_policy, context)
        .for_each(|result| {
            if let Err(error) = result {
                eprintln!("{error}");
            }
            std::future::ready(())
        })
        .await;
    Ok(())
}

/// A pod's Memcached, by label.
fn memcached_of(pod: PodMetadata) -> Option<ObjectRef<Memcached>> {
    let name = pod.labels().get(CR_LABEL)?;
    Some(ObjectRef::new(name).within(&pod.namespace()?))
}

/// An item each time that this replica becomes the leader.
fn elections(leading: watch::Receiver<bool>) -> impl Stream<Item = ()> {
    stream::unfold(leading, |mut leading| async move {
        loop {
            leading.changed().await.ok()?;
            if *leading.borrow_and_update() {
                return Some(((), leading));
            }
        }
    })
}

async fn reconcile(memcached: Arc<Memcached>, context: Arc<Context>) -> Result<Action, kube::Error> {
    if !*context.leading.borrow() || memcached.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    // Controller waits for the Memcacheds only, and an empty cache would look like missing Deployments.
    context.readiness.wait().await;

    let deployment = ensure_deployment(&memcached, &context).await?;
    let status = desired::status(&memcached, &deployment, pod_names(&memcached, &context));
    if memcached.status.as_ref() != Some(&status) {
        write_status(&memcached, &status, &context).await?;
    }
    Ok(Action::await_change())
}

/// The Deployment as it is now: created or corrected if need be.
async fn ensure_deployment(memcached: &Memcached, context: &Context) -> Result<Arc<Deployment>, kube::Error> {
    let wanted = desired::deployment(memcached);
    if let Some(found) = context.deployments.get(&ObjectRef::from_obj(&wanted)) {
        if desired::agrees(&found, &wanted) {
            return Ok(found);
        }
    }
    let namespace = memcached.namespace().unwrap_or_default();
    let deployments = Api::<Deployment>::namespaced(context.client.clone(), &namespace);
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let applied = deployments.patch(&memcached.name_any(), &params, &Patch::Apply(&wanted)).await?;
    Ok(Arc::new(applied))
}

/// Those that are not terminating. A store has no index, so this looks at every pod.
fn pod_names(memcached: &Memcached, context: &Context) -> Vec<String> {
    let (namespace, name) = (memcached.namespace(), memcached.name_any());
    let own = context.pods.state_filter(|pod| {
        pod.metadata.deletion_timestamp.is_none()
            && pod.labels().get(CR_LABEL) == Some(&name)
            && pod.metadata.namespace == namespace
    });
    own.iter().map(|pod| pod.name_any()).collect()
}

async fn write_status(
    memcached: &Memcached,
    status: &MemcachedStatus,
    context: &Context,
) -> Result<(), kube::Error> {
    let namespace = memcached.namespace().unwrap_or_default();
    let memcacheds = Api::<Memcached>::namespaced(context.client.clone(), &namespace);
    let patch = Patch::Merge(json!({ "status": status }));
    memcacheds.patch_status(&memcached.name_any(), &PatchParams::default(), &patch).await?;
    Ok(())
}

fn error_policy(_: Arc<Memcached>, _: &kube::Error, _: Arc<Context>) -> Action {
    Action::requeue(Duration::from_secs(1))
}
