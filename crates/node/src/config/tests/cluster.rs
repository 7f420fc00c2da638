//! The section `cluster:`, good and bad.

use super::super::*;
use super::check;

/// A cluster on one machine, with these lines more.
fn with(more: &str) -> String {
    let more: String = more.lines().map(|line| format!("  {line}\n")).collect();
    format!("cluster:\n  name: c\n  data: /d\n  seeds: [127.0.0.1:7601]\n{more}")
}

fn read(more: &str) -> ClusterConfig {
    Config::from_yaml("node.yaml", &with(more)).expect("valid").cluster.expect("there")
}

/// The example of the printed default, as it reads once it is no comment any more.
fn uncommented() -> String {
    let (_, block) = DEFAULT_CONFIG_YAML.split_once("\n#cluster:\n").expect("the section is shown");
    let lines = block.lines().map_while(|line| line.strip_prefix('#'));
    std::iter::once("cluster:").chain(lines).map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_printed_section_shows_every_field_with_its_default() {
    let shown = Config::from_yaml("default.yaml", &uncommented()).expect("valid").cluster.expect("there");
    let seeds = vec!["127.0.0.1:7601".to_owned()];
    assert_eq!(shown, ClusterConfig::new("example", "/var/lib/leasehold", seeds));
    for field in
        ["node", "advertise", "plaintext", "key_file", "clients_advertise", "zone", "region", "weight"]
    {
        assert!(uncommented().contains(&format!(" {field}: ")), "{field} is not shown");
    }
}

#[test]
fn the_example_of_three_machines_is_a_configuration() {
    let text = include_str!("../../../../../deploy/cluster/node.yaml");
    let cluster = Config::from_yaml("node.yaml", text).expect("valid").cluster.expect("there");
    assert_eq!(cluster.seeds.len(), 3);
    assert!(cluster.gossip.key_file.is_some());
}

#[test]
fn without_the_section_a_node_runs_alone() {
    assert_eq!(Config::from_yaml("node.yaml", "cluster: null\n"), Ok(Config::default()));
}

#[test]
fn a_cluster_needs_a_name_a_directory_and_seeds() {
    check("cluster: { data: /d, seeds: ['a:1'] }\n", ":1:22: cluster: missing field `name`");
    check("cluster: { name: c, seeds: ['a:1'] }\n", ":1:21: cluster: missing field `data`");
    check("cluster: { name: c, data: /d }\n", ":1:21: cluster: missing field `seeds`");
    check(
        "cluster: { name: c, data: '', seeds: ['a:1'] }\n",
        ":1:27: cluster.data: it is empty; name a directory, for example /var/lib/leasehold",
    );
}

#[test]
fn a_name_is_not_only_a_number_and_has_no_blanks() {
    for (name, line) in [("'two words'", "\"two words\""), ("'17'", "\"17\""), ("-a", "\"-a\"")] {
        check(
            &with(&format!("node: {name}")),
            &format!(
                ":5:9: cluster.node: {line} is no name; use a letter or digit, then up to 63 letters, digits, _ . or -, and not only digits"
            ),
        );
    }
    assert_eq!(read("node: node-1.example").node.as_deref(), Some("node-1.example"));
}

#[test]
fn a_seed_is_found_in_its_list() {
    let fix = "is no host and port that others reach; write for example 10.0.0.1:7601 or node-1.example:7601";
    for seed in ["0.0.0.0:7601", "node-1", "node-1:0", ":7601"] {
        check(
            &format!("cluster:\n  name: c\n  data: /d\n  seeds:\n    - a:1\n    - '{seed}'\n"),
            &format!(":6:7: cluster.seeds[1]: {seed:?} {fix}"),
        );
    }
    check(
        "cluster: { name: c, data: /d, seeds: ['a:1', 'b:1', 'a:1'] }\n",
        ":1:38: cluster.seeds: \"a:1\" stands twice; name each node once",
    );
    check(
        "cluster: { name: c, data: /d, seeds: [] }\n",
        ":1:38: cluster.seeds: 0 seeds; name the peer addresses of the nodes that found the cluster, 1 to 64, for example [10.0.0.1:7601, 10.0.0.2:7601, 10.0.0.3:7601]",
    );
}

#[test]
fn numbers_of_a_cluster_keep_their_ranges() {
    check(&with("shards: 24"), ":5:11: cluster.shards: 24 is no power of two; use for example 16, 32 or 64");
    check(&with("shards: 2048"), ":5:11: cluster.shards: 2048 is out of range; use 1 to 1024");
    check(&with("replicas: 0"), ":5:13: cluster.replicas: 0 is out of range; use 1 to 7");
    check(&with("weight: -1"), ":5:11: cluster.weight: -1 is out of range; use 0 to 10000");
    check(
        &with("replace_after_seconds: 5"),
        ":5:26: cluster.replace_after_seconds: 5 is out of range; use 10 to 604800",
    );
    check(
        &with("snapshot_every: 1"),
        ":5:19: cluster.snapshot_every: 1 is out of range; use 100 to 10000000",
    );
}

#[test]
fn peers_on_other_machines_need_the_word_plaintext() {
    check(
        &with("peers:\n  listen: 0.0.0.0:7601\ngossip: { key_file: k }"),
        ":6:13: cluster.peers.listen: 0.0.0.0:7601 is reached by other machines, unencrypted; listen on loopback (127.0.0.1), or say plaintext: true beside it",
    );
    let cluster = read("peers: { listen: 0.0.0.0:7601, plaintext: true }\ngossip: { key_file: k }");
    assert!(!cluster.is_on_one_machine());
}

#[test]
fn gossip_between_machines_needs_a_key() {
    let fix = "gossip between machines is sealed with a key that only the nodes have; make one by openssl rand -hex 32 > gossip.key, copy it to every node and name it here";
    check(
        "cluster:\n  name: c\n  data: /d\n  seeds: [a:1]\n",
        &format!(":2:9: cluster.gossip.key_file: {fix}"),
    );
    check(&with("gossip:\n  listen: 0.0.0.0:7603"), &format!(":6:13: cluster.gossip.key_file: {fix}"));
    assert!(read("").is_on_one_machine());
    let on_this = "cluster: { name: c, data: /d, seeds: ['localhost:1', '[::1]:2'] }";
    assert!(Config::from_yaml("n", on_this).expect("valid").cluster.expect("there").is_on_one_machine());
}

#[test]
fn peers_have_a_port_of_their_own() {
    check(
        &with("peers:\n  listen: 127.0.0.1:7602"),
        ":6:13: cluster.peers.listen: 127.0.0.1:7602 is the operators' address already; give peers a port of their own, for example 127.0.0.1:7601",
    );
}

#[test]
fn the_secret_of_a_cluster_is_its_own() {
    check(
        &("key_secret_file: secret\n".to_owned() + &with("")),
        ":1:18: key_secret_file: a cluster draws a secret of its own when it is created; leave it out",
    );
}

#[test]
fn advertised_addresses_are_such_that_others_reach() {
    check(
        &with("gossip: { advertise: '0.0.0.0:7603' }"),
        ":5:24: cluster.gossip.advertise: \"0.0.0.0:7603\" is no address and port that others reach; write for example 10.0.0.1:7603",
    );
    check(
        &with("clients_advertise: here"),
        ":5:22: cluster.clients_advertise: \"here\" is no host and port that others reach; write for example 10.0.0.1:7601 or node-1.example:7601",
    );
}

#[test]
fn a_machine_may_have_its_own_name_and_directory() {
    let config = || Config::from_yaml("n", &with("node: a")).expect("valid");
    let own = |node: Option<&str>, data: Option<&str>| {
        config().on_this_machine(node.map(str::to_owned), data.map(PathBuf::from))
    };
    let cluster = own(Some("b"), None).expect("valid").cluster.expect("there");
    assert_eq!((cluster.node.as_deref(), cluster.data), (Some("b"), "/d".into()));
    let cluster = own(None, Some("/e")).expect("valid").cluster.expect("there");
    assert_eq!((cluster.node.as_deref(), cluster.data), (Some("a"), "/e".into()));
    assert!(own(Some("two words"), None).is_err());
    assert!(Config::default().on_this_machine(Some("b".to_owned()), None).is_err());
    assert_eq!(Config::default().on_this_machine(None, None), Ok(Config::default()));
}
