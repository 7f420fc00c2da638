//! What one listener lets its peers make it hold, and what happens at each bound.

use std::time::Duration;

/// Bounds of one listener. Each says what happens at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections at once. Beyond: accepted and closed at once, so that the caller notices and turns elsewhere.
    pub connections_max: usize,
    /// Requests being answered at once, over all connections. Beyond: 503 with `Retry-After`, or `UNAVAILABLE`. One whose
    /// body is still under way doesn't count, and `/livez` and `/readyz` are always answered.
    pub in_flight_max: usize,
    /// HTTP/2 streams at once on one connection. Beyond: refused by the protocol; clients wait for a free one. A peer that
    /// answers pings but gives its streams no window keeps so many answers waiting.
    pub streams_per_connection_max: u32,
    /// Bytes of a request's line and headers (HTTP/2: of the decoded list). Beyond: 431; an HTTP/2 list that is longer by
    /// so much that its undecoded rest doesn't fit either ends the connection with `COMPRESSION_ERROR`, because skipping it
    /// would leave the two sides' compression tables apart.
    pub header_bytes_max: u32,
    /// Headers of an HTTP/1 request. Beyond: 431.
    pub headers_max: usize,
    /// Time for a new connection to show which protocol it speaks. Beyond: closed.
    pub first_bytes_timeout: Duration,
    /// HTTP/1: time for a request's headers, and so for an idle connection too. Beyond: closed.
    pub header_timeout: Duration,
    /// Time for one request, its body included, until its response begins. Beyond: 503, or `DEADLINE_EXCEEDED`.
    pub request_timeout: Duration,
    /// Time in which a peer must take something of what is written to it. Beyond: closed, so that callers who never read
    /// their answers hold no memory.
    pub write_timeout: Duration,
    /// HTTP/2: how often a silent peer is pinged.
    pub ping_interval: Duration,
    /// HTTP/2: time to answer a ping. Beyond: closed.
    pub ping_timeout: Duration,
    /// Time at shutdown for what is in flight. Beyond: cut off. A connection with nothing in flight isn't waited for.
    pub drain_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections_max: 8192,
            in_flight_max: 8192,
            streams_per_connection_max: 512,
            header_bytes_max: 16 * 1024,
            headers_max: 100,
            first_bytes_timeout: Duration::from_secs(5),
            header_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(10),
            ping_interval: Duration::from_secs(20),
            ping_timeout: Duration::from_secs(10),
            drain_timeout: Duration::from_secs(10),
        }
    }
}
