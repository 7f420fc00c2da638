//! HTTP and JSON over a [`Decider`](crate::Decider): routes for callers, for proxies and for operators.
//!
//! | case | status | headers | body |
//! |---|---|---|---|
//! | allowed | 200 | `RateLimit`, `RateLimit-Policy` | the decision |
//! | over the limit | 429 | those, `Retry-After`, `Cache-Control: no-store` | problem with the decision |
//! | over, and no wait helps | 429 | those, no `Retry-After` | problem with `"retryable": false` |
//! | undecided, declared `allow` | 200 | `x-leasehold-degraded: true` | the decision |
//! | undecided, declared `deny` | 503 | that, `Retry-After` | problem with the decision |
//! | bad request | 400, 404, 405, 408, 413, 415, 422 | | problem; 400 names the field |
//!
//! Nothing here decides or counts. Whoever serves the routes puts the peer's address into each request's
//! extensions as [`ConnectInfo<SocketAddr>`](axum::extract::ConnectInfo); without it `/v1/authorize` knows no client address.

mod admin;
mod answer;
mod authorize;
mod body;
mod config;
mod json;
mod origin;
mod problem;
mod request;
mod routes;

pub use admin::admin_routes;
pub(crate) use admin::who;
pub(crate) use config::RESET_OFF;
pub use config::{AuthorizeConfig, ForwardedBy, HttpConfig};
pub use leasehold_decide::headers::{RateLimitFields, XRateLimit};
pub(crate) use origin::refuse_other_sites;
pub(crate) use problem::Problem;
pub use routes::client_routes;
