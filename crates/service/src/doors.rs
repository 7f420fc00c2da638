//! Doors of a process: how they answer, what they take in, and how they close.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::HeaderName;
use leasehold_front::http as door;
use leasehold_front::{Door, Listener, ServerLimits, serve};
use leasehold_limit::address::TrustedProxies;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::config::{
    AddressConfig, AuthorizeConfig, ForwardedBy, ForwardingHeader, HttpConfig, IntakeConfig, XRateLimit,
};

/// Connections at the operators' door. Beyond: closed at once. A scraper, a dashboard and a few hands need far fewer.
const ADMIN_CONNECTIONS_MAX: usize = 256;

/// How long an operator's request may take to finish at shutdown.
pub const ADMIN_DRAIN: Duration = Duration::from_secs(1);

/// A drain of nothing takes a moment too.
const DRAIN_MIN: Duration = Duration::from_millis(100);

/// How long a door may take to close after its drain has ended.
pub const CUT_OFF_WITHIN: Duration = Duration::from_secs(1);

/// A door that is open.
#[derive(Debug)]
pub struct Served<A = SocketAddr> {
    /// Where it is.
    pub addr: A,
    stop: CancellationToken,
    task: JoinHandle<usize>,
}

impl<A> Served<A> {
    /// Serves at a port until `stop`.
    pub fn open(
        (listener, addr): (impl Listener, A),
        door: impl Door,
        limits: ServerLimits,
        stop: &CancellationToken,
    ) -> Self {
        let stop = stop.child_token();
        let task = tokio::spawn(serve(listener, door, limits, stop.clone()));
        Self { addr, stop, task }
    }

    /// Takes nobody new and waits for those inside; how many were cut off. The door's own drain is the deadline: `within`
    /// is longer, for a door that doesn't keep it.
    ///
    /// # Errors
    /// It didn't close by itself.
    pub async fn close(mut self, within: Duration) -> Result<usize, Stuck> {
        self.stop.cancel();
        let closed = timeout(within, &mut self.task).await;
        self.task.abort();
        closed.map_err(|_| Stuck)?.map_err(|_| Stuck)
    }
}

/// A door that didn't close by itself: nobody knows what was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck;

/// Binds a port; where it is bound.
///
/// # Errors
/// What the system says.
pub async fn bind(addr: SocketAddr) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(addr).await?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// What the clients' door takes in.
#[must_use]
pub fn client_limits(intake: &IntakeConfig, drain_seconds: u64) -> ServerLimits {
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    ServerLimits {
        connections_max: count(intake.connections_max),
        in_flight_max: count(intake.requests_max),
        streams_per_connection_max: intake.streams_per_connection_max,
        header_bytes_max: intake.header_bytes_max,
        request_timeout: Duration::from_millis(intake.request_timeout_ms),
        drain_timeout: Duration::from_secs(drain_seconds).max(DRAIN_MIN),
        ..ServerLimits::default()
    }
}

/// What the operators' door takes in.
#[must_use]
pub fn admin_limits() -> ServerLimits {
    ServerLimits {
        connections_max: ADMIN_CONNECTIONS_MAX,
        drain_timeout: ADMIN_DRAIN,
        ..ServerLimits::default()
    }
}

/// How the clients' door answers over HTTP. `epoch`: the seconds of the wall clock.
#[must_use]
pub fn http_door(
    http: &HttpConfig,
    authorize: &AuthorizeConfig,
    addresses: &AddressConfig,
    epoch: Arc<dyn Fn() -> u64 + Send + Sync>,
) -> door::HttpConfig {
    let header = match addresses.header {
        ForwardingHeader::XForwardedFor => "x-forwarded-for",
        ForwardingHeader::Forwarded => "forwarded",
    };
    // What is no header name or status was refused when the configuration was read.
    let headers = authorize.headers.iter().filter_map(|(header, attribute)| {
        Some((HeaderName::try_from(header.as_str()).ok()?, attribute.clone()))
    });
    door::HttpConfig {
        reset: http.reset,
        rate_limit: if http.rate_limit { door::RateLimitFields::Draft11 } else { door::RateLimitFields::Off },
        x_rate_limit: match http.x_rate_limit {
            XRateLimit::Off => door::XRateLimit::Off,
            XRateLimit::DeltaSeconds => door::XRateLimit::DeltaSeconds,
            XRateLimit::EpochSeconds => door::XRateLimit::EpochSeconds(epoch),
        },
        authorize: door::AuthorizeConfig {
            domain: authorize.domain.clone(),
            deny_status: authorize.deny_status.and_then(|status| StatusCode::from_u16(status).ok()),
            headers: headers.collect(),
            forwarded_by: match authorize.forwarded_by {
                ForwardedBy::Either => door::ForwardedBy::Either,
                ForwardedBy::XForwarded => door::ForwardedBy::XForwarded,
                ForwardedBy::XOriginal => door::ForwardedBy::XOriginal,
                ForwardedBy::Own => door::ForwardedBy::Own,
            },
            proxies: TrustedProxies::new(addresses.trusted_proxies.clone(), header),
            v6_prefix: addresses.v6_prefix,
        },
        ..door::HttpConfig::default()
    }
}
