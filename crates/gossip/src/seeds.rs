//! Where to ask first: seeds by name, looked up again and again, since what a name stands for changes as nodes come
//! and go.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// How often names are looked up.
const LOOKUP_EVERY: Duration = Duration::from_secs(10);

/// How long one name may take; what it stood for before is kept if it takes longer or fails.
const LOOKUP_MAX: Duration = Duration::from_secs(3);

/// Addresses of one name that are used; the rest is left out.
const ADDRESSES_MAX: usize = 16;

/// Stands for the addresses that were told: no seed is written so.
const KNOWN: &str = "";

/// The addresses that the seeds stand for now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seeds {
    found: Arc<Mutex<BTreeMap<String, Vec<SocketAddr>>>>,
}

impl Seeds {
    /// Starts with the seeds that are addresses already, and looks the others up until `stop`.
    pub(crate) fn watch(seeds: &[String], stop: CancellationToken) -> Self {
        let watched = Self::default();
        let mut names = Vec::new();
        for seed in seeds {
            match seed.parse() {
                Ok(address) => watched.put(seed, vec![address]),
                Err(_) => names.push(seed.clone()),
            }
        }
        if !names.is_empty() {
            let watched = watched.clone();
            tokio::spawn(async move { stop.run_until_cancelled(watched.look_up(names)).await });
        }
        watched
    }

    /// The addresses, without `own`.
    pub(crate) fn addresses(&self, own: SocketAddr) -> BTreeSet<SocketAddr> {
        self.found.lock().values().flatten().copied().filter(|address| *address != own).collect()
    }

    /// Addresses that were learnt elsewhere, in place of those told before.
    pub(crate) fn set_known(&self, addresses: Vec<SocketAddr>) {
        self.put(KNOWN, addresses);
    }

    async fn look_up(self, names: Vec<String>) {
        let mut tick = tokio::time::interval(LOOKUP_EVERY);
        loop {
            tick.tick().await;
            for name in &names {
                match tokio::time::timeout(LOOKUP_MAX, tokio::net::lookup_host(name)).await {
                    Ok(Ok(found)) => self.put(name, found.take(ADDRESSES_MAX).collect()),
                    Ok(Err(error)) => debug!(seed = name, %error, "seed not found"),
                    Err(_) => debug!(seed = name, "seed not found in time"),
                }
            }
        }
    }

    fn put(&self, seed: &str, addresses: Vec<SocketAddr>) {
        self.found.lock().insert(seed.to_owned(), addresses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_are_there_at_once_and_names_soon_after() {
        let stop = CancellationToken::new();
        let seeds = ["127.0.0.1:7001", "127.0.0.1:7002", "localhost:7003"].map(str::to_owned);
        let watched = Seeds::watch(&seeds, stop.clone());
        let own = "127.0.0.1:7002".parse().unwrap();
        assert_eq!(watched.addresses(own), BTreeSet::from(["127.0.0.1:7001".parse().unwrap()]));
        for _ in 0..500 {
            if watched.addresses(own).iter().any(|address| address.port() == 7003) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("localhost was never found: {watched:?}");
    }

    #[tokio::test]
    async fn addresses_learnt_elsewhere_come_beside_the_seeds() {
        let watched = Seeds::watch(&["127.0.0.1:7001".to_owned()], CancellationToken::new());
        let own = "127.0.0.1:7002".parse().unwrap();
        let ports = || watched.addresses(own).iter().map(SocketAddr::port).collect::<Vec<_>>();
        watched.set_known(vec!["127.0.0.1:7003".parse().unwrap(), own]);
        assert_eq!(ports(), [7001, 7003]);
        watched.set_known(vec!["127.0.0.1:7004".parse().unwrap()]);
        assert_eq!(ports(), [7001, 7004]);
    }
}
