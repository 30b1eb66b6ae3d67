//! Whether the caches are synced, for `/readyz` and for reconcilers.

use anyhow::{Context, Result};
use kube::runtime::watcher::Event;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// How many caches are not synced yet.
///
/// `Store::wait_until_ready` is not for this: of several tasks that wait for one store, kube 5.0 wakes only the
/// one that asked last, and Controller is one of them.
#[derive(Clone)]
pub struct Readiness(watch::Sender<usize>);

impl Readiness {
    /// Of so many caches.
    pub fn of(caches: usize) -> Self {
        Self(watch::channel(caches).0)
    }

    /// Takes notice when one of the caches has been filled: to be shown all events of its stream.
    pub fn observer<K>(&self) -> impl FnMut(&Event<K>) + Send + use<K> {
        let (readiness, mut synced) = (self.clone(), false);
        move |event| {
            if matches!(event, Event::InitDone) && !synced {
                synced = true;
                readiness.0.send_modify(|left| *left -= 1);
            }
        }
    }

    /// Wait until all are synced.
    pub async fn wait(&self) {
        // It cannot fail: the sender is here.
        let _ = self.0.subscribe().wait_for(|left| *left == 0).await;
    }

    /// Answer at `address`, as long as the process lives; "0" is nowhere.
    pub async fn serve(&self, address: &str) -> Result<()> {
        if address == "0" {
            return Ok(());
        }
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("--health-probe-bind-address={address}"))?;
        let readiness = self.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(readiness.clone().answer(connection));
            }
        });
        Ok(())
    }

    async fn answer(self, mut connection: TcpStream) {
        let mut request = [0; 1024];
        let read = connection.read(&mut request).await.unwrap_or(0);
        let status = match (request[..read].starts_with(b"GET /readyz "), *self.0.borrow() == 0) {
            (true, true) => "200 OK",
            (true, false) => "503 Service Unavailable",
            (false, _) => "404 Not Found",
        };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        // Whoever asked may have gone.
        let _ = connection.write_all(answer.as_bytes()).await;
    }
}
