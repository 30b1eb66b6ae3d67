//! Leader election, which kube-rs leaves to other crates: kube-lease-manager keeps up with its releases.

use anyhow::{Context, Result};
use kube::Client;
use kube_lease_manager::LeaseManagerBuilder;
use tokio::{sync::watch, task::JoinHandle};

// It has no period of retries: the holder renews once, `GRACE` before its time is over, and the others sleep until
// the time is over that they read last, so that a lease which has been released is seen only then.
const DURATION: u64 = 15;
const GRACE: u64 = 5;

/// A replica's part in the election.
pub struct Candidate {
    task: Option<JoinHandle<()>>,
}

impl Candidate {
    /// Contend for the lease; the receiver tells whether this replica leads.
    pub async fn contend(
        client: Client,
        name: &str,
        namespace: &str,
    ) -> Result<(Self, watch::Receiver<bool>)> {
        let manager = LeaseManagerBuilder::new(client, name)
            .with_namespace(namespace)
            .with_duration(DURATION)
            .with_grace(GRACE)
            .build()
            .await
            .context("leader election")?;
        let (leading, task) = manager.watch().await;
        let task = tokio::spawn(async move {
            if let Ok(Err(error)) = task.await {
                eprintln!("leader election: {error}");
            }
        });
        Ok((Self { task: Some(task) }, leading))
    }

    /// The only replica: it leads from the start.
    pub fn alone() -> (Self, watch::Receiver<bool>) {
        (Self { task: None }, watch::channel(true).1)
    }

    /// Wait until the lease is released, which happens once all receivers are gone.
    pub async fn finish(self) -> Result<()> {
        if let Some(task) = self.task {
            task.await?;
        }
        Ok(())
    }
}
