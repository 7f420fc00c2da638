//! One request as a file describes it: who sent it, through which proxies, with which attributes.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use leasehold_limit::address::{TrustedProxies, client_network, network_text, parse_network};
use serde::Deserialize;

/// Bytes of a request file; the largest request that a server takes is smaller.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A request, with its client's address found.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) domain: String,
    /// What the client counts by; `None` when the file names no peer.
    pub(super) client: Option<String>,
    /// In name order; `ip` is the client unless the file gives another.
    pub(super) attributes: BTreeMap<String, Vec<u8>>,
    pub(super) cost: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    domain: String,
    peer: Option<String>,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    trusted: Vec<String>,
    #[serde(default = "default_header")]
    header: String,
    #[serde(default = "default_v6_prefix")]
    v6_prefix: u8,
    #[serde(default)]
    attributes: BTreeMap<String, Option<AttributeValue>>,
    #[serde(default = "default_cost")]
    cost: u64,
}

/// Text, or raw bytes in hexadecimal digits. `null` is an absent attribute.
#[derive(Deserialize)]
#[serde(untagged)]
enum AttributeValue {
    Text(String),
    Raw { hex: String },
}

fn default_header() -> String {
    "x-forwarded-for".to_owned()
}

const fn default_v6_prefix() -> u8 {
    64
}

const fn default_cost() -> u64 {
    1
}

impl Request {
    /// Reads a request file; `-` reads standard input.
    ///
    /// # Errors
    /// The field that can't be read.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let mut text = String::new();
        let read = if path.as_os_str() == "-" {
            std::io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_string(&mut text)
        } else {
            std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
        };
        read.with_context(|| format!("cannot read {name}"))?;
        ensure!(text.len() as u64 <= FILE_BYTES_MAX, "{name}: longer than {FILE_BYTES_MAX} bytes");
        Self::parse(&text).with_context(|| format!("{name}: not a request"))
    }

    fn parse(text: &str) -> Result<Self> {
        let file: File = serde_json::from_str(text)?;
        let client = file.client()?;
        let mut attributes = BTreeMap::new();
        if let Some(client) = &client {
            attributes.insert("ip".to_owned(), client.clone().into_bytes());
        }
        for (name, value) in file.attributes {
            match value {
                Some(AttributeValue::Text(text)) => attributes.insert(name, text.into_bytes()),
                Some(AttributeValue::Raw { hex }) => {
                    let bytes = unhex(&hex)
                        .ok_or_else(|| anyhow!("attributes.{name}.hex: write pairs of 0-9 and a-f"))?;
                    attributes.insert(name, bytes)
                }
                None => attributes.remove(&name),
            };
        }
        Ok(Self { domain: file.domain, client, attributes, cost: file.cost })
    }
}

impl File {
    /// What the client counts by, as a server with these proxies would find it.
    fn client(&self) -> Result<Option<String>> {
        let Some(peer) = &self.peer else { return Ok(None) };
        let peer = address(peer)
            .ok_or_else(|| anyhow!("peer: {peer:?} is no address; write 10.0.0.1 or 10.0.0.1:4000"))?;
        ensure!(self.v6_prefix <= 128, "v6_prefix: {} is no prefix; use 0 to 128", self.v6_prefix);
        let network = |text: &String| {
            parse_network(text).ok_or_else(|| anyhow!("trusted: {text:?} is no network; write 10.0.0.0/8"))
        };
        let trusted = self.trusted.iter().map(network).collect::<Result<Vec<_>>>()?;
        let proxies = TrustedProxies::new(trusted, &self.header);
        let lines = self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(proxies.header()));
        let lines = lines.map(|(_, value)| value.as_bytes());
        Ok(Some(network_text(client_network(peer, lines, &proxies, self.v6_prefix))))
    }
}

fn address(text: &str) -> Option<IpAddr> {
    let with_port = text.parse::<SocketAddr>().map(|address| address.ip());
    with_port.or_else(|_| text.parse()).ok()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use leasehold_limit::address::parse_network;
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_golden_client_address_is_found() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/keys.json");
        let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let mut compared = 0;
        for case in cases.iter().filter(|case| case["kind"] == "client_ip") {
            let mut input = case["input"].clone();
            input["domain"] = "api".into();
            let request = Request::parse(&input.to_string())
                .unwrap_or_else(|error| panic!("{}: {error:#}", case["id"]));
            let expected = format!("{}/{}", case["expect"]["ip"].as_str().unwrap(), case["expect"]["prefix"]);
            assert_eq!(parse_network(&request.client.unwrap()), parse_network(&expected), "{}", case["id"]);
            compared += 1;
        }
        assert!(compared > 10, "{compared} cases");
    }

    fn check_error(text: &str, expected: &str) {
        let error = format!("{:#}", Request::parse(text).expect_err(text));
        assert!(error.contains(expected), "{text}: {error}");
    }

    #[test]
    fn a_field_that_cannot_be_read_is_named() {
        check_error(r#"{"domain": "api", "peer": "localhost"}"#, "peer: ");
        check_error(r#"{"domain": "api", "peer": "10.0.0.1", "trusted": ["10/8"]}"#, "trusted: ");
        check_error(r#"{"domain": "api", "peer": "10.0.0.1", "v6_prefix": 129}"#, "v6_prefix: ");
        check_error(r#"{"domain": "api", "attributes": {"x": {"hex": "f"}}}"#, "attributes.x.hex: ");
        check_error(r#"{"domain": "api", "attribute": {}}"#, "attribute");
        check_error(r#"{"peer": "10.0.0.1"}"#, "domain");
    }

    #[test]
    fn attributes_are_text_or_raw_bytes_and_null_is_absent() {
        let text = r#"{"domain": "api", "peer": "10.0.0.1", "attributes": {"x": {"hex": "ff00"}, "ip": null, "y": "é"}}"#;
        let request = Request::parse(text).unwrap();
        let expected = [("x".to_owned(), vec![0xff, 0]), ("y".to_owned(), "é".as_bytes().to_vec())];
        assert_eq!(request.attributes.into_iter().collect::<Vec<_>>(), expected);
    }
}
