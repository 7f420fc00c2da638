//! Keeps pages in a browser away from the operators' port.
//!
//! A page of any site can have its visitor's browser send requests to an address that only the visitor reaches. The browser
//! says so in `Origin` with everything but a plain `GET`. Nothing here is known of who asks: no authentication.

use std::net::IpAddr;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderValue, StatusCode, Uri};

use super::problem::Problem;

/// Answers 403 to a request whose `Origin` is not this server, under an address or a loopback name.
///
/// Under another name even the same origin is refused: a site can point its own name at this server's address.
pub(crate) async fn refuse_other_sites(request: Request, next: Next) -> Response {
    match request.headers().get(ORIGIN) {
        Some(origin) if !is_own(origin, &request) => {
            let detail = "a page of another site sent this; operators' requests carry no Origin header";
            Problem::new(StatusCode::FORBIDDEN, detail).into_response()
        }
        Some(_) | None => next.run(request).await,
    }
}

fn is_own(origin: &HeaderValue, request: &Request) -> bool {
    let Some(origin) = Uri::try_from(origin.as_bytes()).ok().and_then(|uri| uri.into_parts().authority)
    else {
        return false;
    };
    let host = match request.headers().get(HOST) {
        Some(host) => Authority::try_from(host.as_bytes()).ok(),
        None => request.uri().authority().cloned(),
    };
    host.is_some_and(|host| host == origin) && is_address_or_loopback(origin.host())
}

fn is_address_or_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn check(origin: &str, host: &str, expected: bool) {
        let request = Request::put("/v1/rules/api").header(HOST, host).body(Body::empty()).unwrap();
        assert_eq!(is_own(&origin.parse().unwrap(), &request), expected, "{origin} at {host}");
    }

    #[test]
    fn only_this_server_under_an_address_or_loopback_name_is_its_own_origin() {
        check("http://127.0.0.1:7071", "127.0.0.1:7071", true);
        check("http://[::1]:7071", "[::1]:7071", true);
        check("http://localhost:7071", "localhost:7071", true);
        check("http://127.0.0.1:8080", "127.0.0.1:7071", false);
        check("https://evil.example", "127.0.0.1:7071", false);
        check("null", "127.0.0.1:7071", false);
        check("", "", false);
    }

    #[test]
    fn a_name_that_a_site_points_at_this_server_is_not_its_own_origin() {
        check("http://evil.example:7071", "evil.example:7071", false);
    }
}
