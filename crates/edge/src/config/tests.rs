//! Configurations, good and bad.

use super::*;

/// Asserts what a configuration is answered with, but for the file's name.
#[track_caller]
fn check(yaml: &str, expected: &str) {
    let error = Config::from_yaml("edge.yaml", yaml).expect_err("a mistake");
    assert_eq!(error.to_string(), format!("edge.yaml{expected}"));
}

#[test]
fn the_printed_default_is_the_default() {
    assert_eq!(Config::from_yaml("default.yaml", DEFAULT_CONFIG_YAML), Ok(Config::default()));
    assert_eq!(Config::from_yaml("edge.yaml", ""), Ok(Config::default()));
}

#[test]
fn an_edge_leases_from_somebody() {
    check(
        "upstreams: []\n",
        ":1:12: upstreams: no node to lease from; write for example [http://127.0.0.1:7600]",
    );
    check(
        "upstreams:\n  - http://a:1\n  - a:1\n",
        ":3:5: upstreams[1]: \"a:1\" is no node's address; write http://HOST:PORT or unix:/PATH, as the node's clients reach it",
    );
}

#[test]
fn an_edge_has_a_door() {
    check(
        "clients: { listen: null }\n",
        ": clients: no door for clients; write listen: 127.0.0.1:7680, or unix: with the path of a socket",
    );
    let only = Config::from_yaml("edge.yaml", "clients: { listen: null, unix: /run/edge.sock }\n")
        .expect("one door");
    assert_eq!((only.clients.listen, only.clients.unix), (None, Some("/run/edge.sock".into())));
}

#[test]
fn a_socket_has_a_path_from_the_root_and_octal_permissions() {
    check(
        "clients: { unix: edge.sock }\n",
        ":1:18: clients.unix: edge.sock is no path of a socket; write one from the root, such as /run/leasehold/edge.sock, of at most 90 bytes",
    );
    check(
        "clients: { unix_mode: rw }\n",
        ":1:23: clients.unix_mode: \"rw\" are no permissions; write octal digits in quotes, such as \"0660\"",
    );
    let read = Config::from_yaml("edge.yaml", "clients: { unix_mode: '0600' }\n").expect("permissions");
    assert_eq!(read.clients.unix_mode, Mode(0o600));
}

#[test]
fn other_machines_need_the_word_plaintext() {
    check(
        "clients: { listen: 0.0.0.0:7680 }\n",
        ":1:20: clients.listen: 0.0.0.0:7680 is reached by other machines, unencrypted; listen on loopback (127.0.0.1), or say plaintext: true beside it",
    );
    check(
        "admin: { listen: 127.0.0.1:7680 }\n",
        ":1:18: admin.listen: 127.0.0.1:7680 is the clients' address already; give operators a port of their own, for example 127.0.0.1:7682",
    );
}

#[test]
fn the_command_line_names_doors_and_nodes_instead() {
    let with = |flags| Config::default().with(flags).expect("good flags");
    let node: Address = "http://n:1".parse().expect("an address");
    let addr: SocketAddr = "0.0.0.0:80".parse().expect("an address");
    let unix = Some(PathBuf::from("/run/edge.sock"));
    let config = with(Flags { upstreams: vec![node.clone()], unix: unix.clone(), ..Flags::default() });
    assert_eq!(config.upstreams, [node]);
    assert_eq!((config.clients.listen, config.clients.unix), (None, unix.clone()));
    let config = with(Flags { http: Some(addr), unix: unix.clone(), ..Flags::default() });
    assert_eq!(
        (config.clients.listen, config.clients.plaintext, config.clients.unix),
        (Some(addr), true, unix)
    );
}

#[test]
fn a_flag_is_checked_as_its_field_is() {
    let refused = |flags, expected: &str| {
        let message = Config::default().with(flags).expect_err("a mistake");
        assert!(message.starts_with(expected), "{message}");
    };
    refused(
        Flags { unix: Some("edge.sock".into()), ..Flags::default() },
        "--unix: edge.sock is no path of a socket; ",
    );
    refused(Flags { name: Some(String::new()), ..Flags::default() }, "--name: \"\" is no name; ");
    let admin = Some(SocketAddr::from(([127, 0, 0, 1], 7680)));
    refused(Flags { admin, ..Flags::default() }, "127.0.0.1:7680 is for clients and for operators; ");
}
