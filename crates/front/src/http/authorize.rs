//! `/v1/authorize`: a proxy asks whether a request may pass (nginx `auth_request`, Traefik ForwardAuth, Caddy
//! `forward_auth`, Envoy and Gateway API HTTP external authorization).
//!
//! The attributes are `path` (without the query), `method`, `host` (lower case, without port), `ip` (the client's network)
//! and the configured headers. Paths and methods stay as the proxy sends them: whoever wants `%2e` and `//` resolved has
//! the proxy do it. 200 with an empty body lets the request pass; `x-leasehold-verdict` says `allowed`, `over_limit` or
//! `unavailable` for proxies that fold statuses. The body is never read, and no deadline is taken from the headers: both are
//! the client's.
//!
//! Query parameters: `domain`, `cost` (default 1) and `deny_status` (400 to 599; nginx needs 403). They are the proxy's,
//! so they are taken at `/v1/authorize` alone. Below it, at `/v1/authorize/...`, the rest of the URL is the client's own
//! (Envoy's `path_prefix`) and the configuration alone decides.

use std::borrow::Cow;
use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::{ConnectInfo, Query, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use leasehold_decide::headers;
use leasehold_limit::address::{client_network, network_text};
use leasehold_limit::check::{Answer, Attribute, Descriptor, Request as Checked, Verdict};

use super::answer::{self, DecisionBody};
use super::config::{AuthorizeConfig, ForwardedBy};
use super::json::echo;
use super::problem::{NO_STORE, PROBLEM_JSON, Problem};
use super::routes::{Door, Shared, named};
use crate::{CheckError, Decider, bounds};

const VERDICT: HeaderName = HeaderName::from_static("x-leasehold-verdict");
const PREFIX: &str = "/v1/authorize";

/// Headers that tell an original request: method, target and host.
struct Names {
    method: HeaderName,
    target: HeaderName,
    host: Option<HeaderName>,
}

static X_FORWARDED: Names = Names {
    method: HeaderName::from_static("x-forwarded-method"),
    target: HeaderName::from_static("x-forwarded-uri"),
    host: Some(HeaderName::from_static("x-forwarded-host")),
};
static X_ORIGINAL: Names = Names {
    method: HeaderName::from_static("x-original-method"),
    target: HeaderName::from_static("x-original-uri"),
    host: None,
};

/// Any method at `/v1/authorize`.
pub(super) async fn authorize<D: Decider>(State(door): Shared<D>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let work = async {
        let asked = Asked::from_query(&parts.uri, &door.config.authorize)?;
        let original = Original::told(&parts, door.config.authorize.forwarded_by)?;
        pass(&door, &parts, &asked, &original).await
    };
    named(&parts.headers, work).await
}

/// Any method below `/v1/authorize/`.
pub(super) async fn authorize_below<D: Decider>(State(door): Shared<D>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let work = async {
        let asked = Asked::from_config(&door.config.authorize);
        let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default();
        let original = Original { path: Cow::Borrowed(path), ..Original::own(&parts) };
        pass(&door, &parts, &asked, &original).await
    };
    named(&parts.headers, work).await
}

/// What the proxy asks for.
struct Asked<'a> {
    domain: Option<Cow<'a, str>>,
    cost: u64,
    deny_status: Option<StatusCode>,
}

impl<'a> Asked<'a> {
    fn from_config(config: &'a AuthorizeConfig) -> Self {
        Self { domain: config.domain.as_deref().map(Cow::Borrowed), cost: 1, deny_status: config.deny_status }
    }

    fn from_query(uri: &Uri, config: &'a AuthorizeConfig) -> Result<Self, Problem> {
        let mut asked = Self::from_config(config);
        if uri.query().is_none() {
            return Ok(asked);
        }
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|_| {
            Problem::field("query", "it can't be read; send name=value pairs, percent-encoded")
        })?;
        let mut seen = Vec::with_capacity(pairs.len().min(KNOWN.len()));
        for (name, value) in pairs {
            let Some(known) = KNOWN.iter().find(|known| **known == name) else {
                let fix = format!("it is not a parameter here; there are {}", KNOWN.join(", "));
                return Err(Problem::field(echo(&name), &fix));
            };
            if seen.contains(known) {
                return Err(Problem::field(*known, "it is there twice; send it once"));
            }
            seen.push(known);
            asked.set(known, value)?;
        }
        Ok(asked)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), Problem> {
        match name {
            "domain" => self.domain = Some(Cow::Owned(value)),
            "cost" => {
                let fix = "it is not a whole number from 0 to 18446744073709551615";
                self.cost = decimal(&value).ok_or_else(|| Problem::field("cost", fix))?;
            }
            _ => {
                let status = decimal::<u16>(&value).filter(|status| (400..=599).contains(status));
                let status = status.and_then(|status| StatusCode::from_u16(status).ok());
                let fix = "it is not a status from 400 to 599; nginx takes 403";
                self.deny_status = Some(status.ok_or_else(|| Problem::field("deny_status", fix))?);
            }
        }
        Ok(())
    }
}

const KNOWN: [&str; 3] = ["domain", "cost", "deny_status"];

/// Digits alone: `str::parse` would also take a plus sign.
fn decimal<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The request that a client sent to the proxy.
struct Original<'a> {
    method: &'a [u8],
    path: Cow<'a, str>,
    host: Option<String>,
}

impl<'a> Original<'a> {
    /// This request itself.
    fn own(parts: &'a Parts) -> Self {
        let host = parts.headers.get(HOST).map(HeaderValue::as_bytes);
        let host = host.or_else(|| parts.uri.authority().map(|authority| authority.as_str().as_bytes()));
        Self {
            method: parts.method.as_str().as_bytes(),
            path: Cow::Borrowed(parts.uri.path()),
            host: host.and_then(host_name),
        }
    }

    /// As the proxy tells it, and this request itself where it doesn't.
    fn told(parts: &'a Parts, by: ForwardedBy) -> Result<Self, Problem> {
        let own = Self::own(parts);
        match Names::of(&parts.headers, by)? {
            Some(names) => names.read(&parts.headers, own),
            None => Ok(own),
        }
    }
}

impl Names {
    /// The headers to believe.
    fn of(headers: &HeaderMap, by: ForwardedBy) -> Result<Option<&'static Self>, Problem> {
        let told = |names: &Self| headers.contains_key(&names.target) || headers.contains_key(&names.method);
        match by {
            ForwardedBy::Own => Ok(None),
            ForwardedBy::XForwarded => Ok(Some(&X_FORWARDED)),
            ForwardedBy::XOriginal => Ok(Some(&X_ORIGINAL)),
            ForwardedBy::Either => match (told(&X_FORWARDED), told(&X_ORIGINAL)) {
                (true, true) => Err(Problem::field(
                    "X-Forwarded-Uri",
                    "it came beside X-Original-URI, and one of them may be the client's; have the proxy remove one, or \
                     configure which counts",
                )),
                (true, false) => Ok(Some(&X_FORWARDED)),
                (false, true) => Ok(Some(&X_ORIGINAL)),
                (false, false) => Ok(None),
            },
        }
    }

    fn read<'a>(&self, headers: &'a HeaderMap, own: Original<'a>) -> Result<Original<'a>, Problem> {
        let path = match once(headers, &self.target)? {
            Some(target) => path_of(target).ok_or_else(|| {
                Problem::field(self.target.as_str(), "it is no URI; send the path or the whole URI")
            })?,
            None => own.path,
        };
        let host = match &self.host {
            Some(name) => once(headers, name)?.map(HeaderValue::as_bytes).and_then(host_name).or(own.host),
            None => own.host,
        };
        let method = once(headers, &self.method)?.map_or(own.method, HeaderValue::as_bytes);
        Ok(Original { method, path, host })
    }
}

/// A header that a proxy sets once: of two, one is the client's.
fn once<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => {
            Err(Problem::field(name.as_str(), "it is there twice; have the proxy replace the client's"))
        }
    }
}

/// The path of a request target, which is a path with a query or a whole URI.
fn path_of(target: &HeaderValue) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(target.as_bytes()).ok()?;
    if text.starts_with('/') {
        let end = text.find(['?', '#']).unwrap_or(text.len());
        return Some(Cow::Borrowed(&text[..end]));
    }
    let uri = text.parse::<Uri>().ok()?;
    uri.scheme()?;
    Some(Cow::Owned(uri.path().to_owned()))
}

/// Host names are case-insensitive, attributes are not: one spelling, and no port.
fn host_name(bytes: &[u8]) -> Option<String> {
    Authority::try_from(bytes).ok().map(|authority| authority.host().to_ascii_lowercase())
}

/// Decides and renders.
async fn pass<D: Decider>(
    door: &Door<D>,
    parts: &Parts,
    asked: &Asked<'_>,
    original: &Original<'_>,
) -> Result<Response, Problem> {
    let config = &door.config.authorize;
    let missing = "no domain is named; send ?domain=NAME or configure one";
    let domain = asked.domain.as_deref().ok_or_else(|| Problem::field("domain", missing))?;
    bounds::domain(domain)?;
    let ip = client(parts, config);
    let attributes = attributes(original, ip.as_deref(), &parts.headers, config);
    bounds::attributes("attributes", &attributes)?;
    let descriptors = vec![Descriptor { attributes, cost: asked.cost, limit_override: None }];
    let request = Checked { domain, descriptors, request_id: None };
    // A deadline header here may be the client's own, forwarded: with it the client would choose how the limit fails.
    match door.decider.check(&request, None).await {
        Ok(answer) => Ok(respond(door, asked, &answer)),
        Err(error @ CheckError::Overloaded { .. }) => {
            let verdict = HeaderValue::from_static(Verdict::Unavailable.name());
            Err(Problem::from(error).header(VERDICT, verdict).status(asked.deny_status))
        }
        Err(error) => Err(error.into()),
    }
}

/// The client's network as text, if the peer is known.
fn client(parts: &Parts, config: &AuthorizeConfig) -> Option<String> {
    let ConnectInfo(peer) = parts.extensions.get::<ConnectInfo<SocketAddr>>()?;
    let lines = parts.headers.get_all(config.proxies.header()).iter().map(HeaderValue::as_bytes);
    Some(network_text(client_network(peer.ip(), lines, &config.proxies, config.v6_prefix)))
}

fn attributes<'a>(
    original: &'a Original<'_>,
    ip: Option<&'a str>,
    headers: &'a HeaderMap,
    config: &'a AuthorizeConfig,
) -> Vec<Attribute<'a>> {
    let mut attributes = Vec::with_capacity(4 + config.headers.len());
    attributes.push(Attribute { name: "path", value: original.path.as_bytes() });
    attributes.push(Attribute { name: "method", value: original.method });
    if let Some(host) = &original.host {
        attributes.push(Attribute { name: "host", value: host.as_bytes() });
    }
    if let Some(ip) = ip {
        attributes.push(Attribute { name: "ip", value: ip.as_bytes() });
    }
    for (header, name) in &config.headers {
        if let Some(value) = headers.get(header) {
            attributes.push(Attribute { name, value: value.as_bytes() });
        }
    }
    attributes
}

fn respond<D>(door: &Door<D>, asked: &Asked<'_>, answer: &Answer) -> Response {
    let mut response = match answer.verdict {
        Verdict::Allowed => Response::new(Body::empty()),
        Verdict::OverLimit | Verdict::Unavailable => refuse(asked, answer),
    };
    let headers = response.headers_mut();
    answer::insert_headers(answer, &door.config, headers);
    headers.insert(VERDICT, HeaderValue::from_static(answer.verdict.name()));
    headers.insert(CACHE_CONTROL, NO_STORE);
    response
}

fn refuse(asked: &Asked<'_>, answer: &Answer) -> Response {
    let status = asked.deny_status.unwrap_or(headers::status(answer.verdict));
    let body = DecisionBody { status, ..DecisionBody::new(answer, asked.cost == 0) };
    let body = serde_json::to_vec(&body).expect("a decision has only text keys and writes to memory");
    (status, [(CONTENT_TYPE, PROBLEM_JSON)], body).into_response()
}
