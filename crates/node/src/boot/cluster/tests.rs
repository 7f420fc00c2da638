//! What a node of a cluster needs before it takes part.

use std::path::PathBuf;

use super::*;

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// [`KEY`] with another last byte.
fn key(last: u8) -> GossipKey {
    let mut bytes: [u8; KEY_BYTES] = from_hex(KEY).expect("a key");
    bytes[KEY_BYTES - 1] = last;
    GossipKey::from_bytes(bytes)
}

/// What a key file of this text is answered with: the last byte of each key.
fn check(text: &str, expected: Result<(u8, Option<u8>), &str>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("gossip.key");
    std::fs::write(&path, text).expect("written");
    let gossip = GossipConfig { key_file: Some(path), ..GossipConfig::default() };
    match (gossip_keys("c", &gossip), expected) {
        (Ok(found), Ok((sealing, other))) => assert_eq!(found, (key(sealing), other.map(key))),
        (Err(StartError::Secret { message, .. }), Err(expected)) => {
            assert!(message.contains(expected), "{text:?}: {message}");
        }
        (answer, _) => panic!("{text:?}: {answer:?}"),
    }
}

#[test]
fn a_gossip_key_file_holds_one_key_or_two() {
    let other = KEY.replace("1f", "2f");
    check(KEY, Ok((0x1f, None)));
    check(&format!("{KEY}\n"), Ok((0x1f, None)));
    check(&format!("{other}\n{KEY}\n\n"), Ok((0x2f, Some(0x1f))));
    check("", Err("64 hexadecimal digits"));
    check(&KEY[1..], Err("64 hexadecimal digits"));
    check(&format!("{KEY}\n{KEY}\n{KEY}\n"), Err("64 hexadecimal digits"));
    check(&format!("{KEY}\nno"), Err("64 hexadecimal digits"));
}

#[test]
fn what_a_node_is_started_with_can_be_logged_without_its_keys() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("gossip.key");
    std::fs::write(&path, format!("{}\n{}\n", "a7".repeat(KEY_BYTES), "b9".repeat(KEY_BYTES)))
        .expect("written");
    let mut cluster =
        ClusterConfig { node: Some("a".to_owned()), ..ClusterConfig::new("c", "/d", Vec::new()) };
    cluster.gossip.key_file = Some(path);
    let config = Config::default();
    let prepared = prepare(&config, &cluster).expect("prepared");
    let shown =
        format!("{:?}", part(&config, &cluster, &prepared, ([127, 0, 0, 1], 1).into())).to_lowercase();
    // As hexadecimal or decimal numbers, in a row.
    for secret in ["a7a7", "a7, a7", "167, 167", "b9b9", "b9, b9", "185, 185"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert!(shown.contains("key(..)"), "{shown}");
}

#[test]
fn without_a_key_file_clusters_of_two_names_have_two_keys() {
    let key = |name| gossip_keys(name, &GossipConfig::default()).expect("a key").0;
    assert_eq!(key("a"), key("a"));
    assert_ne!(key("a"), key("b"));
}

fn advertised(listen: &str, peers: Option<&str>, clients: Option<&str>) -> String {
    let mut cluster = ClusterConfig::new("c", "/d", vec!["a:1".to_owned()]);
    cluster.peers.advertise = peers.map(str::to_owned);
    cluster.clients_advertise = clients.map(str::to_owned);
    clients_advertise(&cluster, "node-1", listen.parse().expect("an address"))
}

#[test]
fn others_are_told_an_address_of_clients_that_they_reach() {
    assert_eq!(advertised("10.0.0.1:7600", None, None), "10.0.0.1:7600");
    assert_eq!(advertised("0.0.0.0:7600", None, None), "node-1:7600");
    assert_eq!(advertised("0.0.0.0:7600", Some("10.0.0.1:7601"), None), "10.0.0.1:7600");
    assert_eq!(advertised("[::]:7600", Some("[fd00::1]:7601"), None), "[fd00::1]:7600");
    assert_eq!(advertised("0.0.0.0:7600", Some("10.0.0.1:7601"), Some("lb:80")), "lb:80");
}

#[test]
fn first_rules_that_are_wrong_are_found_before_anything_is_opened() {
    let cluster = ClusterConfig { node: Some("a".to_owned()), ..ClusterConfig::new("c", "/d", Vec::new()) };
    let with = |rules: Option<PathBuf>| prepare(&Config { rules, ..Config::default() }, &cluster);
    assert!(with(None).expect("none are fine").first.texts().is_empty());
    assert!(matches!(with(Some("no/such.yaml".into())), Err(StartError::ReadRules { .. })));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("d.yaml");
    std::fs::write(&path, "{domain: d, limits: [{name: a, limit: 1/fortnight}]}").expect("written");
    assert!(matches!(with(Some(path)), Err(StartError::Rules(mistakes)) if mistakes.len() == 1));
}
