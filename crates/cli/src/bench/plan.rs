//! What a run shall do, checked before the first connection.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::keys::Distribution;
use crate::remote::http_url;

/// Connections of one run: each costs both sides a socket.
pub(crate) const CONNECTIONS_MAX: usize = 10_000;
/// Requests in flight on one connection; servers commonly allow no more streams.
pub(crate) const STREAMS_MAX: usize = 1_000;
/// Worker threads.
pub(crate) const THREADS_MAX: usize = 64;
/// Checks in one message; servers of ours take no more.
pub(crate) const BATCH_MAX: usize = 1_000;
/// Distinct keys: as many as the digits of a key can tell apart.
pub(crate) const KEYS_MAX: u64 = 100_000_000;
/// Requests a second of an open loop, well above what one machine can send.
pub(crate) const RATE_MAX: u64 = 50_000_000;

/// How requests are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    /// HTTP/1.1 with JSON: POST /v1/check; one request at a time on a connection.
    Http,
    /// gRPC leasehold.v1 Check.
    Grpc,
    /// gRPC leasehold.v1 CheckBatch, --batch checks a message.
    GrpcBatch,
    /// Envoy's rate limit service, --batch descriptors a message.
    Rls,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// After so much measured time.
    After(Duration),
    /// After so many measured requests.
    Requests(u64),
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Host and port, for headers and reports.
    pub(crate) authority: String,
    /// Where to connect.
    pub(crate) address: SocketAddr,
    pub(crate) protocol: Protocol,
    pub(crate) connections: usize,
    /// Requests in flight on each connection.
    pub(crate) streams: usize,
    pub(crate) threads: usize,
    /// Checks in one message.
    pub(crate) batch: usize,
    /// Requests a second in all; `None` is a closed loop.
    pub(crate) rate: Option<u64>,
    pub(crate) domain: String,
    /// Names and values; `{key}` in a value becomes the key of each check.
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) cost: u32,
    pub(crate) keys: u64,
    pub(crate) distribution: Distribution,
    /// Sent before anything is measured.
    pub(crate) warmup: Duration,
    pub(crate) end: End,
    /// Process whose processor time is charged to the decisions.
    pub(crate) cpu_of: Option<u32>,
    /// Equal seeds ask for equal keys.
    pub(crate) seed: u64,
}

impl Plan {
    /// Refuses what can't be run, and remote targets unless they are meant.
    ///
    /// # Errors
    /// The flag and the fix.
    pub(crate) fn check(&self, allow_remote: bool) -> Result<()> {
        ensure!(
            allow_remote || self.address.ip().is_loopback(),
            "{} is not this machine; add --allow-remote if you mean to put load on it",
            self.address
        );
        let within = |flag: &str, value: usize, max: usize| {
            ensure!((1..=max).contains(&value), "{flag}: {value} is out of range; use 1 to {max}");
            Ok(())
        };
        within("--connections", self.connections, CONNECTIONS_MAX)?;
        within("--streams", self.streams, STREAMS_MAX)?;
        within("--threads", self.threads, THREADS_MAX)?;
        within("--batch", self.batch, BATCH_MAX)?;
        ensure!((1..=KEYS_MAX).contains(&self.keys), "--keys: use 1 to {KEYS_MAX}");
        ensure!(
            self.threads <= self.connections,
            "--threads: more than --connections; each drives at least one"
        );
        ensure!(self.rate.is_none_or(|rate| (1..=RATE_MAX).contains(&rate)), "--rate: use 1 to {RATE_MAX}");
        ensure!(self.end != End::Requests(0), "--requests: use at least 1");
        match self.protocol {
            Protocol::Http => {
                ensure!(
                    self.batch == 1,
                    "--batch: HTTP carries one check a request; use --protocol grpc-batch"
                );
                ensure!(
                    self.streams == 1,
                    "--streams: HTTP/1.1 carries one request at a time; raise --connections instead"
                );
            }
            Protocol::Grpc => {
                ensure!(self.batch == 1, "--batch: gRPC Check carries one; use --protocol grpc-batch");
            }
            Protocol::GrpcBatch | Protocol::Rls => {}
        }
        Ok(())
    }
}

/// Reads `http://host:port` or `host:port` into what headers name and where to connect.
///
/// # Errors
/// What to write instead, or the host that can't be found.
pub(crate) fn target(text: &str) -> Result<(String, SocketAddr)> {
    let url = http_url(text, "TARGET")?;
    let authority = url.trim_start_matches("http://").trim_end_matches('/');
    ensure!(
        authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()),
        "TARGET: {text:?} is no server; write http://HOST:PORT, for example http://127.0.0.1:7600"
    );
    let addresses = authority
        .to_socket_addrs()
        .with_context(|| format!("TARGET: cannot find the host of {authority}"))?;
    // `localhost` is both; servers listen on IPv4 unless told otherwise.
    let address = addresses
        .min_by_key(SocketAddr::is_ipv6)
        .with_context(|| format!("TARGET: {authority} has no address"))?;
    Ok((authority.to_owned(), address))
}
