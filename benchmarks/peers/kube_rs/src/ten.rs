//! Ten controllers on one kind, which share one watch and one cache.

use std::{convert::Infallible, sync::Arc};

use anyhow::Result;
use futures::{FutureExt, StreamExt, TryStreamExt, future, pin_mut};
use kube::{
    Api, Client, ResourceExt,
    runtime::{
        WatchStreamExt,
        controller::{Action, Config, Controller},
        reflector::{self, ObjectRef, Store},
        watcher,
    },
};

use crate::{health::Readiness, types::Memcached};

const BUFFER: usize = 256;

pub async fn run(
    client: Client,
    concurrency: u16,
    readiness: Readiness,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<()> {
    let (memcacheds, writer) = reflector::store_shared(BUFFER);
    let controllers: Vec<_> = (0..10)
        .map(|_| {
            let subscriber = writer.subscribe().expect("the store is a shared one");
            Controller::for_shared_stream(subscriber, memcacheds.clone())
                .with_config(Config::default().concurrency(concurrency))
                .run(reconcile, |_, error, _| match *error {}, Arc::new(memcacheds.clone()))
                .for_each(|_| future::ready(()))
        })
        .collect();
    let changes = watcher(Api::<Memcached>::all(client), watcher::Config::default())
        .default_backoff()
        .modify(|memcached| memcached.managed_fields_mut().clear())
        .reflect_shared(writer)
        .inspect_ok(readiness.observer())
        .for_each(|_| future::ready(()));

    let work = future::join(changes, future::join_all(controllers)).map(|_| ());
    pin_mut!(work, shutdown);
    future::select(work, shutdown).await;
    Ok(())
}

async fn reconcile(memcached: Arc<Memcached>, cache: Arc<Store<Memcached>>) -> Result<Action, Infallible> {
    let _current = cache.get(&ObjectRef::from_obj(memcached.as_ref()));
    Ok(Action::await_change())
}
