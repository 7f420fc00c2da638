//! The golden cases of client addresses and counter keys, and what must hold for keys beyond them.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use leasehold_limit::address::{TrustedProxies, client_network, parse_network};
use leasehold_limit::{KeySecret, RuleKeys, rule_key};
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
    let networks = input.trusted.iter().map(|text| parse_network(text).expect("a network")).collect();
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
    let hex = value["hex"].as_str().expect("null, a text or hex");
    Some((0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect())
}

/// Numbers that look random and repeat from run to run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Short texts of few letters, so that different splits of the same letters are frequent.
    fn text(&mut self, length_max: u64) -> String {
        (0..self.next() % (length_max + 1))
            .map(|_| if self.next().is_multiple_of(2) { 'a' } else { '\0' })
            .collect()
    }
}

#[test]
fn different_names_never_share_a_key() {
    let mut random = Random(1);
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..100_000 {
        let (domain, rule) = (random.text(3), random.text(3));
        let count = random.next() % 4;
        let values: Vec<Option<String>> =
            (0..count).map(|_| (!random.next().is_multiple_of(4)).then(|| random.text(6))).collect();
        let bytes = values.iter().map(|value| value.as_ref().map(String::as_bytes));
        let key = rule_key(&SECRET, &domain, &rule, bytes);
        let name = (domain, rule, values);
        let first = seen.entry(key).or_insert_with(|| name.clone());
        assert_eq!(*first, name, "one key for two names");
    }
    assert!(seen.len() > 50_000, "the names differ enough to show anything");
}

#[test]
fn a_key_follows_the_secret_the_domain_and_the_rule() {
    let value = || std::iter::once(Some(b"acme".as_slice()));
    let key = rule_key(&SECRET, "api", "login", value());
    assert_eq!(key, rule_key(&SECRET, "api", "login", value()));
    assert_ne!(key, rule_key(&KeySecret::new([0; 16]), "api", "login", value()));
    assert_ne!(key, rule_key(&SECRET, "ap", "ilogin", value()));
    assert_ne!(key, rule_key(&SECRET, "login", "api", value()));
}

#[test]
fn hashes_for_different_uses_differ() {
    let session = SECRET.session(b"api");
    assert_ne!(u64::try_from(session & u128::from(u64::MAX)).unwrap(), SECRET.tenant("api").0);
    assert_ne!(u64::try_from(session >> 64).unwrap(), SECRET.tenant("api").0);
    assert_ne!(SECRET.session(b"api"), SECRET.session(b"apj"));
}

#[test]
fn a_secret_never_shows() {
    let shown = format!("{SECRET:?} {:?}", RuleKeys::new(&SECRET, "api", "login"));
    assert_eq!(shown, "KeySecret(..) RuleKeys(..)");
}

/// Keys are stored and replicated: a change of the encoding would make every counter fresh at an upgrade.
#[test]
fn the_encoding_of_keys_is_pinned() {
    let values = [Some(b"acme".as_slice()), None, Some(b"")];
    let key = rule_key(&SECRET, "api", "login", values.into_iter());
    assert_eq!(key.to_string(), "dc5edc28abb9507180375395401c54a6");
}
