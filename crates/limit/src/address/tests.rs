//! Who the client is, by peer and headers.

use super::*;

/// The client by these lines of `header`, behind proxies of 10.0.0.0/8, when a proxy at 10.0.0.1 asks.
fn check(header: &str, lines: &[&str], expected: &str) {
    let proxies = TrustedProxies::new(vec!["10.0.0.0/8".parse().expect("a network")], header);
    let lines = lines.iter().map(|line| line.as_bytes());
    let client = client_address("10.0.0.1".parse().expect("an address"), lines, &proxies);
    assert_eq!(client.to_string(), expected);
}

fn list(line: &str, expected: &str) {
    check("X-Forwarded-For", &[line], expected);
}

fn forwarded(line: &str, expected: &str) {
    check("Forwarded", &[line], expected);
}

#[test]
fn a_quote_that_a_client_leaves_open_hides_no_later_entry() {
    forwarded(r#"for=1.1.1.1;x=", for=192.0.2.7"#, "192.0.2.7");
    check("Forwarded", &[r#"for=1.1.1.1;x=""#, "for=192.0.2.7"], "192.0.2.7");
    forwarded(r#"x="\", for=192.0.2.7"#, "192.0.2.7");
}

#[test]
fn separators_inside_quotes_separate_nothing() {
    forwarded(r#"for=192.0.2.7;x="a, for=1.1.1.1; for=2.2.2.2""#, "192.0.2.7");
    forwarded(r#"x="\\", for=192.0.2.7;y="\\\", for=9.9.9.9""#, "192.0.2.7");
}

#[test]
fn an_escaped_address_is_still_an_address() {
    forwarded(r#"for="192\.0.2.7""#, "192.0.2.7");
    forwarded(r#"for="[2001:db8::\1]:443""#, "2001:db8::1");
}

#[test]
fn an_element_with_two_clients_or_none_ends_the_walk() {
    forwarded("for=192.0.2.7;for=192.0.2.8", "10.0.0.1");
    forwarded("for=192.0.2.7, by=10.0.0.2", "10.0.0.1");
    forwarded("for=192.0.2.7, nonsense", "10.0.0.1");
    forwarded("for=, for=10.0.0.9", "10.0.0.9");
}

#[test]
fn hidden_ports_are_ports_and_hidden_names_are_no_addresses() {
    forwarded(r#"for="192.0.2.7:_p1""#, "192.0.2.7");
    forwarded(r#"for="192.0.2.7:_""#, "10.0.0.1");
    forwarded("for=_client", "10.0.0.1");
}

#[test]
fn empty_list_elements_are_no_entries() {
    list("192.0.2.7, , 10.0.0.2,", "192.0.2.7");
    list("", "10.0.0.1");
    check("X-Forwarded-For", &["192.0.2.7", "", "10.0.0.2"], "192.0.2.7");
}

#[test]
fn when_every_hop_is_trusted_the_first_one_is_the_client() {
    list("10.9.9.9, 10.0.0.2", "10.9.9.9");
}

#[test]
fn what_only_looks_like_an_address_ends_the_walk() {
    for entry in [
        "192.0.2.7:",
        "192.0.2.7:x",
        "192.0.2.7:123456",
        "192.0.2.07",
        "192.0.2",
        "[192.0.2.7]",
        "[2001:db8::1",
        "[2001:db8::1]443",
        "2001:db8::1%",
        "192.0.2.7%eth0",
        "2001:db8::g",
        "\u{ff11}92.0.2.7",
        "0x7f.1",
        "host",
    ] {
        list(entry, "10.0.0.1");
    }
    list(&"1".repeat(NODE_LEN_MAX + 1), "10.0.0.1");
}

#[test]
fn any_other_header_holds_one_address_or_a_list() {
    check("CF-Connecting-IP", &["192.0.2.7"], "192.0.2.7");
}

#[test]
fn mapped_networks_are_the_networks_they_map() {
    let mapped = parse_network("::ffff:10.0.0.0/104").expect("a network");
    assert_eq!(mapped, parse_network("10.0.0.0/8").expect("a network"));
    assert_eq!(parse_network("::ffff:10.0.0.1"), parse_network("10.0.0.1/32"));
    assert_eq!(parse_network("::/0").map(|network| network.to_string()), Some("::/0".into()));
}

#[test]
fn a_network_of_one_address_is_written_as_that_address() {
    let text = |address: &str, prefix| network_text(network_of(address.parse().expect("an address"), prefix));
    assert_eq!(text("192.0.2.7", 64), "192.0.2.7");
    assert_eq!(text("2001:db8::1", 64), "2001:db8::/64");
    assert_eq!(text("2001:db8::1", 200), "2001:db8::1");
    assert_eq!(text("2001:db8::1", 0), "::/0");
}

#[test]
fn bytes_of_any_kind_give_the_peer_or_an_address_they_hold() {
    let pieces =
        [",", ";", "\"", "\\", "for=", "=", " ", "[", "]", ":", "%", "1.2.3.4", "10.0.0.2", "::1", "\u{e9}"];
    let mut seed = 1_u64;
    for _ in 0..20_000 {
        let mut line = String::new();
        for _ in 0..12 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            line.push_str(pieces[usize::try_from((seed >> 33) % 15).expect("small")]);
        }
        for header in ["forwarded", "x-forwarded-for"] {
            let proxies = TrustedProxies::new(vec!["10.0.0.0/8".parse().expect("a network")], header);
            let peer: IpAddr = "10.0.0.1".parse().expect("an address");
            let client = client_address(peer, std::iter::once(line.as_bytes()), &proxies);
            assert!(
                client == peer || !proxies.trusts(client) || line.contains("10.0.0.2"),
                "{header}: {line}"
            );
        }
    }
}
