//! What an operator can choose about the HTTP door. Plain values, checked by whoever reads the configuration.

use http::StatusCode;
use http::header::HeaderName;
use leasehold_decide::headers::{RateLimitFields, XRateLimit};
use leasehold_limit::address::TrustedProxies;

/// Bytes of a single check's body. Larger: 413.
const CHECK_BYTES_MAX: usize = 64 * 1024;

/// The answer to a reset (403, PERMISSION_DENIED) where callers may not. It names the setting as a node's file spells it.
pub(crate) const RESET_OFF: &str =
    "resetting counters is switched off by this server's configuration (http.reset: false)";

/// The HTTP door's settings.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Bytes of a single check's body. Larger: 413.
    pub check_bytes_max: usize,
    /// Bytes of a batch's body. Larger: 413.
    pub batch_bytes_max: usize,
    /// Whether callers may make counters fresh, over HTTP and gRPC alike; if not, they are told so.
    pub reset: bool,
    /// `RateLimit` and `RateLimit-Policy`.
    pub rate_limit: RateLimitFields,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`.
    pub x_rate_limit: XRateLimit,
    /// `/v1/authorize`.
    pub authorize: AuthorizeConfig,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            check_bytes_max: CHECK_BYTES_MAX,
            batch_bytes_max: crate::bounds::MESSAGE_BYTES_MAX,
            reset: true,
            rate_limit: RateLimitFields::Draft11,
            x_rate_limit: XRateLimit::Off,
            authorize: AuthorizeConfig::default(),
        }
    }
}

/// Settings of `/v1/authorize`, the endpoint that proxies ask.
#[derive(Clone, Debug)]
pub struct AuthorizeConfig {
    /// The domain when the query names none. `None`: then a request without `domain` is refused.
    pub domain: Option<String>,
    /// The status of a refusal when the query names none. `None`: 429 over the limit, 503 when it can't be decided.
    pub deny_status: Option<StatusCode>,
    /// Request headers that become attributes: (header, attribute's name). The first line of a header counts.
    pub headers: Vec<(HeaderName, String)>,
    /// Whose word on the original method, URI and host counts.
    pub forwarded_by: ForwardedBy,
    /// Proxies whose word on the client's address counts, and the header that they write.
    ///
    /// The default is `X-Forwarded-For` from the machine itself, where a proxy beside the node runs. With nobody trusted
    /// the peer is the client.
    pub proxies: TrustedProxies,
    /// IPv6 clients are told apart by this many leading bits.
    pub v6_prefix: u8,
}

impl Default for AuthorizeConfig {
    fn default() -> Self {
        let loopback = ["127.0.0.0/8", "::1/128"].map(|net| net.parse().expect("it is a network"));
        Self {
            domain: None,
            deny_status: None,
            headers: Vec::new(),
            forwarded_by: ForwardedBy::Either,
            proxies: TrustedProxies::new(loopback.to_vec(), "x-forwarded-for"),
            v6_prefix: 64,
        }
    }
}

/// Which headers tell the original request.
///
/// A proxy sets one pair and passes what the client sent of the other. So only one pair may count: else a client could
/// name another path than the one it is after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedBy {
    /// Whichever pair is there; a request with both is refused (400) rather than guessed at.
    #[default]
    Either,
    /// `X-Forwarded-Method`, `X-Forwarded-Uri` and `X-Forwarded-Host` (Traefik, Caddy).
    XForwarded,
    /// `X-Original-Method`, `X-Original-URI` and the request's own `Host` (nginx).
    XOriginal,
    /// The request's own method, target and `Host` (Envoy, Gateway API).
    Own,
}
