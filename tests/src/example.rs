//! The configuration files of `deploy/`, as users get them, with this test's addresses in place of the documented ones.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// Text of one of the examples' files, such as `envoy/rules.yaml`.
///
/// # Panics
/// When there is no such file.
#[must_use]
pub fn example(file: &str) -> String {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy")).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Puts one text in place of another.
///
/// # Panics
/// When the example doesn't hold `from`: then the test would run something else than it says.
#[must_use]
pub fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "the example has no {from:?}");
    text.replace(from, to)
}

/// Puts each address in place of the documented one, such as `127.0.0.1:7600`. `between` is what the file has between
/// host and port.
///
/// # Panics
/// When the example doesn't hold a documented address.
#[must_use]
pub fn with_addresses(text: &str, between: &str, addresses: &[(&str, SocketAddr)]) -> String {
    addresses.iter().fold(text.to_owned(), |text, (documented, address)| {
        let (host, port) = documented.rsplit_once(':').expect("a documented address has a port");
        replaced(
            &text,
            &format!("{host}{between}{port}"),
            &format!("{}{between}{}", address.ip(), address.port()),
        )
    })
}
