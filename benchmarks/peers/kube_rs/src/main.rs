//! The work of this project's Memcached operator, written with kube-rs, for comparison.

mod controller;
mod desired;
mod election;
mod health;
mod pods;
mod ten;
mod types;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, Config,
    api::PartialObjectMeta,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::{election::Candidate, health::Readiness};

#[derive(Clone, ValueEnum)]
enum Workload {
    Memcached,
    PodsMetadata,
    Pods,
    Ten,
}

#[derive(Parser)]
struct Flags {
    #[arg(long)]
    kubeconfig: PathBuf,
    #[arg(long, default_value_t = 8)]
    concurrency: u16,
    #[arg(long, default_value = "0")]
    health_probe_bind_address: String,
    #[arg(long, value_enum, default_value = "memcached")]
    workload: Workload,
    #[arg(long)]
    leader_elect: bool,
    #[arg(long, default_value = "memcached")]
    leader_election_id: String,
    #[arg(long, default_value = "default")]
    leader_election_namespace: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_env_filter(EnvFilter::new("warn")).with_writer(std::io::stderr).init();
    let flags = Flags::parse();
    let client = connect(&flags).await?;
    let readiness = Readiness::of(if matches!(flags.workload, Workload::Memcached) { 3 } else { 1 });
    readiness.serve(&flags.health_probe_bind_address).await?;
    let shutdown = asked_to_stop()?;

    match flags.workload {
        Workload::Memcached => memcached(flags, client, readiness, shutdown).await,
        Workload::PodsMetadata => pods::cache::<PartialObjectMeta<Pod>>(client, readiness, shutdown).await,
        Workload::Pods => pods::cache::<Pod>(client, readiness, shutdown).await,
        Workload::Ten => ten::run(client, flags.concurrency, readiness, shutdown).await,
    }
}

async fn memcached(
    flags: Flags,
    client: Client,
    readiness: Readiness,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) -> Result<()> {
    let (candidate, leading) = if flags.leader_elect {
        Candidate::contend(client.clone(), &flags.leader_election_id, &flags.leader_election_namespace)
            .await?
    } else {
        Candidate::alone()
    };
    controller::run(client, flags.concurrency, readiness, leading, shutdown).await?;
    candidate.finish().await
}

async fn connect(flags: &Flags) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(&flags.kubeconfig)
        .with_context(|| format!("--kubeconfig={}", flags.kubeconfig.display()))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

fn asked_to_stop() -> Result<impl Future<Output = ()> + Send + Sync + 'static> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => (),
            _ = terminate.recv() => (),
        }
    })
}
