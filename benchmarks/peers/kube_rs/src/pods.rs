//! A cache of all pods, and nothing else.

use std::fmt::Debug;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, pin_mut};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{WatchStreamExt, reflector, watcher},
};
use serde::de::DeserializeOwned;

use crate::health::Readiness;

/// `K` is Pod for whole objects, or PartialObjectMeta of it.
pub async fn cache<K>(client: Client, readiness: Readiness, shutdown: impl Future<Output = ()>) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (_pods, writer) = reflector::store();
    let changes = watcher(Api::<K>::all(client), watcher::Config::default())
        .default_backoff()
        .modify(|pod| pod.managed_fields_mut().clear())
        .reflect(writer)
        .inspect_ok(readiness.observer())
        .for_each(|_| std::future::ready(()));
    pin_mut!(changes, shutdown);
    futures::future::select(changes, shutdown).await;
    Ok(())
}
