//! The way from a user's machine to the scheduler that leads: its lease names the pod, and a port-forward through the
//! API server reaches the API of that pod, which listens within the pod only.
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow, bail};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::outbox::driver::chain;

/// Where the scheduler serves its API in its pod, unless a flag says otherwise.
const PORT: u16 = 8082;

/// The lease of a scheduler, as `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl LeaseRef {
    /// That of a scheduler with the name volcano.
    pub const USUAL: &str = "volcano-system/volcano";
}

impl FromStr for LeaseRef {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text
            .split_once('/')
            .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty() && !name.contains('/'));
        let (namespace, name) =
            parts.ok_or("expected NAMESPACE/NAME of a lease, such as volcano-system/volcano")?;
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for LeaseRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// An address of this machine whose connections come out at the scheduler that leads when they are made.
pub(super) struct Forward {
    pub(super) address: SocketAddr,
    failed: Arc<Mutex<Option<String>>>,
}

impl Forward {
    /// Listens on a free port of loopback until the process ends.
    pub(super) async fn to(client: Client, lease: LeaseRef) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, failed) = (listener.local_addr()?, Arc::<Mutex<Option<String>>>::default());
        let told = Arc::clone(&failed);
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let (client, lease, told) = (client.clone(), lease.clone(), Arc::clone(&told));
                tokio::spawn(async move {
                    let ended = carry(&client, &lease, &mut connection).await;
                    // Before the connection is closed: who asked over it looks here then.
                    *told.lock().unwrap_or_else(PoisonError::into_inner) =
                        ended.err().map(|error| format!("{error:#}"));
                });
            }
        });
        Ok(Self { address, failed })
    }

    /// Why the last connection that ended came to a bad end.
    pub(super) fn failed(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn carry(client: &Client, lease: &LeaseRef, connection: &mut TcpStream) -> Result<()> {
    let pod = leader(client, lease).await?;
    let what = format!("forwarding port {PORT} of pod {}/{pod}", lease.namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), &lease.namespace);
    let mut forward =
        pods.portforward(&pod, &[PORT]).await.map_err(|error| anyhow!("{what}: {}", told(&error)))?;
    let (stream, refused) = (forward.take_stream(PORT), forward.take_error(PORT));
    let (mut stream, refused) = stream.zip(refused).context("a port-forward without its port")?;
    tokio::select! {
        Some(why) = refused => bail!("{what}: {}", why.trim_end()),
        // Either side may close the connection when it likes.
        _ = copy_bidirectional(connection, &mut stream) => Ok(()),
    }
}

/// The pod of the scheduler that holds the lease: its identity is the name of the pod and, behind `_`, a random part.
async fn leader(client: &Client, lease: &LeaseRef) -> Result<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), &lease.namespace);
    let found = leases.get(&lease.name).await.map_err(|error| anyhow!("lease {lease}: {}", told(&error)))?;
    let holder = found.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    match holder.rsplit_once('_') {
        Some((pod, _)) => Ok(pod.to_owned()),
        None => bail!("lease {lease}: no scheduler leads (holder {holder:?})"),
    }
}

fn told(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => chain(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_named_by_its_namespace_and_name() {
        let lease: LeaseRef = "volcano-system/volcano".parse().unwrap();
        assert_eq!((&*lease.namespace, &*lease.name), ("volcano-system", "volcano"));
        for wrong in ["volcano", "/volcano", "a/", "a/b/c", ""] {
            assert!(wrong.parse::<LeaseRef>().is_err(), "{wrong}");
        }
    }
}
