//! Configurations, good and bad.

mod cluster;

use std::collections::BTreeMap;

use super::*;

/// Asserts what a configuration is answered with, but for the file's name.
#[track_caller]
fn check(yaml: &str, expected: &str) {
    let error = Config::from_yaml("node.yaml", yaml).expect_err("a mistake");
    assert_eq!(error.to_string(), format!("node.yaml{expected}"));
}

#[test]
fn the_printed_default_is_the_default() {
    assert_eq!(Config::from_yaml("default.yaml", DEFAULT_CONFIG_YAML), Ok(Config::default()));
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(Config::from_yaml("node.yaml", ""), Ok(Config::default()));
    assert_eq!(Config::from_yaml("node.yaml", "# nothing yet\n"), Ok(Config::default()));
}

#[test]
fn a_file_holds_only_what_differs() {
    let config = Config::from_yaml("node.yaml", "rules: rules/\nlog: { format: json }\n").expect("valid");
    let log = LogConfig { format: LogFormat::Json, ..LogConfig::default() };
    assert_eq!(config, Config { rules: Some("rules/".into()), log, ..Config::default() });
}

#[test]
fn an_unknown_field_is_named_with_those_there_are() {
    check(
        "clients:\n  lissten: 127.0.0.1:1\n",
        ":2:3: clients.lissten: unknown field `lissten`; use one of listen, plaintext",
    );
}

#[test]
fn values_of_keys_are_kept_only_where_that_is_said_or_on_ones_own_machine() {
    assert!(!Config::default().admin.show_key_values);
    let told = Config::from_yaml("node.yaml", "admin: { show_key_values: true }\n").expect("valid");
    assert!(told.admin.show_key_values && told.admin.listen.port() == 7602);
    let elsewhere = DevOptions { admin: Some(([0, 0, 0, 0], 1).into()), ..DevOptions::default() };
    let kept = [DevOptions::default(), elsewhere].map(|dev| Config::dev(dev).admin.show_key_values);
    assert_eq!(kept, [true, false]);
}

#[test]
fn an_address_needs_a_port() {
    check(
        "clients:\n  listen: localhost\n",
        ":2:11: clients.listen: \"localhost\" is not an address with a port; write for example 127.0.0.1:7600 or [::1]:7600",
    );
}

#[test]
fn other_machines_need_the_word_plaintext() {
    check(
        "clients:\n  plaintext: false\n  listen: 0.0.0.0:7600\n",
        ":3:11: clients.listen: 0.0.0.0:7600 is reached by other machines, unencrypted; listen on loopback (127.0.0.1), or say plaintext: true beside it",
    );
    check(
        "admin: { listen: '[::]:7602' }\n",
        ":1:18: admin.listen: [::]:7602 is reached by other machines, unencrypted; listen on loopback (127.0.0.1), or say plaintext: true beside it",
    );
    assert!(Config::from_yaml("node.yaml", "clients: { listen: 0.0.0.0:7600, plaintext: true }").is_ok());
}

#[test]
fn two_doors_need_two_addresses() {
    check(
        "admin:\n  listen: 127.0.0.1:7600\n",
        ":2:11: admin.listen: 127.0.0.1:7600 is the clients' address already; give operators a port of their own, for example 127.0.0.1:7602",
    );
    assert!(
        Config::from_yaml("n", "clients: { listen: 127.0.0.1:0 }\nadmin: { listen: 127.0.0.1:0 }").is_ok()
    );
}

#[test]
fn a_bad_network_is_found_in_its_list() {
    check(
        "addresses:\n  trusted_proxies:\n    - 10.0.0.0/8\n    - 10.0.0.0/33\n",
        ":4:7: addresses.trusted_proxies[1]: \"10.0.0.0/33\" is not a network; write for example 10.0.0.0/8, 2001:db8::/32 or one address",
    );
}

#[test]
fn numbers_keep_their_ranges() {
    check("addresses: { v6_prefix: 0 }\n", ":1:25: addresses.v6_prefix: 0 is out of range; use 1 to 128");
    check("drain_seconds: -1\n", ":1:16: drain_seconds: -1 is out of range; use 0 to 3600");
    check(
        "counters: { keys_max: 4294967296 }\n",
        ":1:23: counters.keys_max: 4294967296 is out of range; use 1 to 4294967295",
    );
    check(
        "authorize: { deny_status: 70000 }\n",
        ":1:27: authorize.deny_status: 70000 refuses nothing; use 400 to 599",
    );
    check("authorize: { deny_status: no }\n", ":1:27: authorize.deny_status: not a whole number");
    check("drain_seconds: soon\n", ":1:16: drain_seconds: not a whole number");
}

#[test]
fn words_come_from_their_lists() {
    check("log: { format: xml }\n", ":1:16: log.format: unknown variant `xml`; use one of text, json");
    check(
        "log: { level: loud }\n",
        ":1:15: log.level: log level \"loud\" is not understood; use error, warn, info, debug, trace or a list such as info,leasehold_node=debug",
    );
    check(
        "addresses: { header: x-real-ip }\n",
        ":1:22: addresses.header: unknown variant `x-real-ip`; use one of x-forwarded-for, forwarded",
    );
}

#[test]
fn broken_yaml_is_named_by_line() {
    check("clients: {\n", ":1:10: clients: unclosed bracket '{'");
    check("- a\n", ":1:1: expected fields, such as `rules: rules.yaml`");
    check("rules: a\nrules: b\n", ":2:1: duplicate mapping key: rules");
}

#[test]
fn header_names_fold_to_lower_case() {
    let config = Config::from_yaml("n", "authorize: { headers: { X-Plan: plan } }").expect("valid");
    assert_eq!(config.authorize.headers, BTreeMap::from([("x-plan".to_owned(), "plan".to_owned())]));
    check(
        "authorize: { headers: { 'x plan': plan } }\n",
        ":1:23: authorize.headers: \"x plan\" is not a header name; use letters, digits and hyphens",
    );
}

#[test]
fn a_header_becomes_an_attribute_that_rules_can_name_and_no_request_has_by_itself() {
    check(
        "authorize: { headers: { x-plan: 'the plan' } }\n",
        ":1:23: authorize.headers: \"the plan\" is no attribute name; use 1 to 128 bytes without blanks",
    );
    check(
        "authorize: { headers: { x-ip: ip } }\n",
        ":1:23: authorize.headers: every request has an attribute ip of its own; name that of header \"x-ip\" differently",
    );
}

#[test]
fn as_many_headers_may_become_attributes_as_one_request_may_have_beside_its_own() {
    let with = |count: usize| {
        let headers: String = (0..count).map(|index| format!("    x-{index}: a{index}\n")).collect();
        format!("authorize:\n  headers:\n{headers}")
    };
    assert!(Config::from_yaml("n", &with(60)).is_ok());
    check(&with(61), ":3:5: authorize.headers: 61 headers; use at most 60");
}

#[test]
fn the_domain_for_proxies_is_one_that_rules_can_have() {
    check(
        "authorize: { domain: 'my api' }\n",
        ":1:22: authorize.domain: \"my api\" is no domain name; use a letter or digit, then up to 127 letters, digits, _ . : / or -",
    );
    check(
        "authorize: { domain: '' }\n",
        ":1:22: authorize.domain: \"\" is no domain name; use a letter or digit, then up to 127 letters, digits, _ . : / or -",
    );
    assert!(Config::from_yaml("n", "authorize: { domain: api }").is_ok());
}

#[test]
fn a_door_named_for_dev_is_opened() {
    let listen = (Ipv4Addr::UNSPECIFIED, 80).into();
    let config = Config::dev(DevOptions { clients: Some(listen), ..DevOptions::default() });
    assert_eq!(config.clients, DoorConfig { listen, plaintext: true });
    let admin = AdminConfig { show_key_values: true, ..AdminConfig::default() };
    assert_eq!(Config::dev(DevOptions::default()), Config { admin, ..Config::default() });
}

#[test]
fn a_refusal_has_a_status_that_refuses() {
    check(
        "authorize: { deny_status: 204 }\n",
        ":1:27: authorize.deny_status: 204 refuses nothing; use 400 to 599",
    );
    let config = Config::from_yaml("n", "authorize: { deny_status: 403 }").expect("valid");
    assert_eq!(config.authorize.deny_status, Some(403));
}
