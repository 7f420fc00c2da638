//! Profiles there and back, and texts that no node would write.

use proptest::prelude::*;

use super::*;
use crate::message::{KEY_MAX, VALUE_MAX};

const OWN: NodeId = NodeId(77);

fn profile() -> Profile {
    Profile {
        name: "a1".into(),
        peer_address: "10.0.0.1:7400".into(),
        client_address: "a1.example:7401".into(),
        zone: "east-1".into(),
        region: "east".into(),
        level: 3,
        rules: RulesVersion(12),
        load: Load { cpu_millicores: 140, keys: 9, decisions_per_second: 4_000, leading: 11 },
        hints: [(0, OWN), (7, OWN), (40, NodeId(5))]
            .map(|(group, leader)| (group, LeaderHint { leader, term: 4 }))
            .into(),
    }
}

fn decoded(texts: &BTreeMap<String, String>) -> Decoded {
    decode(OWN, texts.iter().map(|(key, text)| (key.as_str(), text.as_str())))
}

/// Decodes the usual profile with `text` in the place of what `key` held.
fn with(key: &str, text: &str) -> Decoded {
    let mut texts = profile().encode(OWN);
    texts.insert(key.to_owned(), text.to_owned());
    decoded(&texts)
}

#[test]
fn a_profile_is_told_in_short_texts() {
    let texts = profile().encode(OWN);
    assert_eq!((texts["v"].as_str(), texts["u"].as_str(), texts["l"].as_str()), ("3", "c", "3w.9.334.b"));
    assert_eq!((texts["h0"].as_str(), texts["h2"].as_str()), ("0.4,7.4", "14.4.5"));
}

#[test]
fn a_bad_value_is_counted_and_the_rest_is_used() {
    for (key, text) in [
        ("v", "4294967296"),
        ("v", "-1"),
        ("u", "+5"),
        ("u", "05"),
        ("u", ""),
        ("l", "1.2.3"),
        ("l", "1.2.3.4.5"),
        ("z", "a\u{1b}[2J"),
        ("r", &"x".repeat(65)),
        ("h0", "0.4,g.4"),
        ("h0", "0"),
        ("h0", "0.1.2.3"),
        ("h0", ""),
        ("hzz", "sg.1"),
        ("x", "2"),
    ] {
        let got = with(key, text);
        assert_eq!(got.bad, 1, "{key}={text}");
        assert!(got.profile.is_some(), "{key}={text}");
    }
}

#[test]
fn a_node_is_no_member_until_name_and_addresses_are_sound() {
    for (key, text) in
        [("n", ""), ("p", "host"), ("p", "host:0"), ("c", "a b:1"), ("c", ":80"), ("p", "h:+1")]
    {
        assert_eq!(with(key, text).profile, None, "{key}={text}");
    }
    assert_eq!(decoded(&BTreeMap::new()), Decoded::default());
}

#[test]
fn keys_of_a_later_level_are_left_alone() {
    assert_eq!(with("q", "\u{1b}?"), Decoded { profile: Some(profile()), left: false, bad: 0 });
}

#[test]
fn leaving_is_told() {
    assert!(with(LEAVING.0, LEAVING.1).left);
    assert!(!decoded(&profile().encode(OWN)).left);
}

#[test]
fn addresses_are_hosts_with_ports() {
    for good in ["1.2.3.4:5", "[::1]:80", "a-b.c_d.example:65535"] {
        assert!(is_address(good), "{good}");
    }
    for bad in ["", ":", "a:", "a:65536", "[::1]:0", "1.2.3.4:0", "a/b:1", "é:1"] {
        assert!(!is_address(bad), "{bad}");
    }
}

#[test]
fn the_lowest_groups_hints_are_told_when_there_are_too_many() {
    let hint = LeaderHint { leader: NodeId(u64::MAX), term: u64::MAX };
    let all = Profile { hints: (0..5_000).map(|group| (group, hint)).collect(), ..profile() };
    let texts = all.encode(OWN);
    assert!(texts.iter().all(|(key, text)| key.len() <= KEY_MAX && text.len() <= VALUE_MAX));
    let got = decoded(&texts).profile.unwrap().hints;
    assert_eq!(got.keys().copied().collect::<Vec<u32>>(), (0..256).collect::<Vec<u32>>());
}

fn arbitrary_profile() -> impl Strategy<Value = Profile> {
    let hint =
        (any::<u64>(), any::<u64>()).prop_map(|(leader, term)| LeaderHint { leader: NodeId(leader), term });
    let load = any::<[u64; 4]>().prop_map(|[cpu_millicores, keys, decisions_per_second, leading]| Load {
        cpu_millicores,
        keys,
        decisions_per_second,
        leading,
    });
    (any::<u32>(), any::<u64>(), load, prop::collection::btree_map(0..GROUPS_MAX, hint, 0..200)).prop_map(
        |(level, rules, load, hints)| Profile { level, rules: RulesVersion(rules), load, hints, ..profile() },
    )
}

proptest! {
    #[test]
    fn a_profile_comes_back_as_it_was(profile in arbitrary_profile()) {
        let texts = profile.encode(OWN);
        prop_assert!(texts.values().all(|text| text.len() <= VALUE_MAX));
        prop_assert_eq!(decoded(&texts), Decoded { profile: Some(profile), left: false, bad: 0 });
    }

    #[test]
    fn arbitrary_texts_never_panic(texts in prop::collection::btree_map("[a-z][0-9a-z]?", "\\PC{0,40}", 0..20)) {
        decoded(&texts);
    }
}
