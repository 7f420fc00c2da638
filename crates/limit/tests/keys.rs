//! The golden cases of client addresses and counter keys, and what must hold for keys beyond them.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use leasehold_limit::address::{TrustedProxies, client_network, parse_network};
use leasehold_limit::{KeySecret, rule_key};
use leasehold_model::Key;
use serde::Deserialize;
use serde_json::Value;

const GOLDEN: &str = include_str!("../../../tests/golden/keys.json");
const SECRET: KeySecret = KeySecret::new(*b"sixteen byte key");

#[derive(Deserialize)]
struct Case {
    id: String,
    kind: String,
    input: Value,
    expect: Value,
}

#[derive(Deserialize)]
struct ClientIp {
    peer: SocketAddr,
    headers: Vec<(String, String)>,
    trusted: Vec<String>,
    header: String,
    v6_prefix: u8,
}

#[derive(Deserialize)]
struct Keyed {
    rule: String,
    dims: Vec<(String, Value)>,
}

#[test]
fn every_golden_case_holds() {
    let cases: Vec<Case> = serde_json::from_str(GOLDEN).unwrap();
    assert_eq!(cases.len(), 56);
    for case in cases {
        match case.kind.as_str() {
            "client_ip" => {
                let prefix = u8::try_from(case.expect["prefix"].as_u64().unwrap()).unwrap();
                let ip: IpAddr = case.expect["ip"].as_str().unwrap().parse().unwrap();
                let expected = IpNet::new(ip, prefix).unwrap();
                assert_eq!(network(&serde_json::from_value(case.input).unwrap()), expected, "{}", case.id);
            }
            "key_pair" => {
                let [a, b] =
                    ["a", "b"].map(|side| key(&serde_json::from_value(case.input[side].clone()).unwrap()));
                assert_eq!(a == b, case.expect["same_key"].as_bool().unwrap(), "{}", case.id);
            }
            other => panic!("{}: unknown kind {other}", case.id),
        }
    }
}

fn network(input: &ClientIp) -> IpNet {
    let networks = input.trusted.iter().map(|text| parse_network(text).unwrap()).collect();
    let proxies = TrustedProxies::new(networks, &input.header);
    let lines = input.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(proxies.header()));
    client_network(input.peer.ip(), lines.map(|(_, value)| value.as_bytes()), &proxies, input.v6_prefix)
}

fn key(input: &Keyed) -> Key {
    let values: Vec<Option<Vec<u8>>> = input.dims.iter().map(|(_, value)| bytes(value)).collect();
    rule_key(&SECRET, "golden", &input.rule, values.iter().map(Option::as_deref))
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    if value.is_null() {
        return None;
    }
    if let Some(text) = value.as_str() {
        return Some(text.as_bytes().to_vec());
    }
    let hex = value["hex"].as_str().unwrap();
    Some((0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect())
}
