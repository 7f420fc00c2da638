//! Rules that the control group changes while they are in force.

use leasehold_control::{Cluster, ClusterId, Command, Refusal, Reply, RulesChange};
use leasehold_model::Stamp;
use leasehold_placement::{Placement, ShardMap};

use super::*;
use crate::kept::Log;

/// A control group without rules.
fn control() -> Control {
    let cluster = Cluster { id: ClusterId(7), secret: [3; 16], shards: 1, replicas: 1 };
    let mut control = Control::new();
    control.apply(Command::Create { cluster, nodes: Vec::new(), map: ShardMap::default() }, Stamp(1));
    control
}

fn set(control: &mut Control, domain: &str, text: Option<&str>) {
    let change =
        RulesChange { domain: domain.into(), text: text.map(Arc::from), expected: None, by: "a test".into() };
    control.apply(Command::Rules(change), Stamp(50));
}

fn text(domain: &str, n: u64) -> String {
    format!("domain: {domain}\nlimits:\n  - {{ name: a, limit: {n}/min }}\n")
}

fn rules() -> ClusterRules {
    ClusterRules::new("c", KeySecret::new([1; 16]), Arc::new(Metrics::new()), None, "eu".to_owned())
}

/// Version in force, and the limits of domain `d` in it.
fn in_force(rules: &ClusterRules) -> (u64, Option<u64>) {
    let active = rules.in_force().active();
    let limit = active.as_ref().and_then(|active| active.book.domains.get("d"));
    (rules.in_force().version().0, limit.map(|domain| domain.rules[0].limit.n()))
}

#[test]
fn nothing_is_in_force_before_the_control_group_is_known_and_none_is_a_set_too() {
    let rules = rules();
    assert!(rules.in_force().active().is_none());
    rules.follow(&Control::new());
    assert!(rules.in_force().active().is_none(), "there is no cluster yet");
    rules.follow(&control());
    assert!(rules.in_force().active().is_some());
    assert_eq!((in_force(&rules), *rules.followed().borrow()), ((0, None), Some(RulesVersion(0))));
}

#[test]
fn whole_versions_are_followed_in_their_order_under_the_clusters_secret() {
    let (rules, mut control) = (rules(), control());
    set(&mut control, "d", Some(&text("d", 1)));
    rules.follow(&control);
    assert_eq!(in_force(&rules), (1, Some(1)));
    let active = rules.in_force().active().expect("known");
    assert_eq!(active.book.since, control.rules_since());
    assert_eq!(active.secret.tenant("d"), KeySecret::new([3; 16]).tenant("d"));
    let old = control.clone();
    set(&mut control, "d", Some(&text("d", 2)));
    set(&mut control, "e", Some(&text("e", 9)));
    rules.follow(&control);
    rules.follow(&old);
    assert_eq!(in_force(&rules), (3, Some(2)));
    set(&mut control, "d", None);
    rules.follow(&control);
    assert_eq!(in_force(&rules), (4, None));
}

#[test]
fn a_node_decides_by_the_home_shards_of_its_region() {
    let homes =
        ["eu", "us", "eu", "us"].map(|home| Placement { home: Some(home.into()), ..Placement::default() });
    let map = ShardMap { shards: homes.into(), ..ShardMap::default() };
    let cluster = Cluster { id: ClusterId(7), secret: [3; 16], shards: 4, replicas: 1 };
    let mut control = Control::new();
    control.apply(Command::Create { cluster, nodes: Vec::new(), map }, Stamp(1));
    let rules = rules();
    rules.follow(&control);
    let expected = Region::new(&KeySecret::new([3; 16]), "eu", 4, [ShardId(0), ShardId(2)]);
    assert_eq!(rules.in_force().active().unwrap().region, expected);
}

#[test]
fn what_is_not_understood_leaves_the_old_rules_in_force_and_is_an_error() {
    let (rules, mut control) = (rules(), control());
    set(&mut control, "d", Some(&text("d", 1)));
    rules.follow(&control);
    let log = Log::keep();
    set(&mut control, "d", Some("domain: d\nlimits:\n  - { name: a, limit: 1/fortnight }\n"));
    rules.follow(&control);
    assert_eq!((in_force(&rules), *rules.followed().borrow()), ((1, Some(1)), Some(RulesVersion(2))));
    assert!(log.text().contains("ERROR") && log.text().contains("not understood here"), "{}", log.text());
    assert_eq!(rules.in_force().status().errors[0].file, "d");
    set(&mut control, "d", Some(&text("d", 3)));
    rules.follow(&control);
    assert_eq!((in_force(&rules), rules.in_force().status().errors), ((3, Some(3)), vec![]));
}

/// The first rules of domains `d` and `e`.
fn first() -> FirstRules {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for domain in ["e", "d"] {
        let path = folder.path().join(format!("{domain}.yaml"));
        std::fs::write(path, text(domain, 1)).expect("written");
    }
    FirstRules::read(&Source::at(Some(folder.path())), &KeySecret::new([1; 16])).expect("valid")
}

#[test]
fn first_rules_are_awaited_until_all_are_there_or_others_are() {
    let (first, mut control) = (first(), control());
    let names: Vec<_> = first.texts().iter().map(|(domain, _)| &**domain).collect();
    assert_eq!(names, ["d", "e"]);
    assert!(first.are_awaited(&control) && !first.are_those_of(&control));
    set(&mut control, "e", Some(&text("e", 1)));
    assert!(first.are_awaited(&control));
    let mut other = control.clone();
    set(&mut control, "d", Some(&text("d", 1)));
    assert!(!first.are_awaited(&control) && first.are_those_of(&control));
    set(&mut other, "d", Some(&text("d", 2)));
    assert!(!first.are_awaited(&other) && !first.are_those_of(&other));
}

#[test]
fn what_is_missing_of_the_first_rules_completes_them_and_never_follows_a_change_of_somebody_else() {
    let (first, mut control) = (first(), control());
    set(&mut control, "e", Some(&text("e", 1)));
    let mut other = control.clone();
    set(&mut other, "f", Some(&text("f", 1)));
    let missing = first.missing(&control);
    assert_eq!(missing.len(), 1);
    for change in missing {
        control.apply(Command::Rules(change.clone()), Stamp(60));
        let refused = other.apply(Command::Rules(change), Stamp(60));
        assert!(matches!(refused, Reply::Refused(Refusal::RulesConflict(_))), "{refused:?}");
    }
    assert!(first.are_those_of(&control));
    assert!(first.missing(&control).is_empty());
}

#[test]
fn nobody_waits_for_rules_that_there_are_none_of() {
    assert!(!FirstRules::default().are_awaited(&control()));
}

#[test]
fn two_files_of_one_domain_are_a_mistake_of_the_first_rules() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["a.yaml", "b.yaml"] {
        std::fs::write(folder.path().join(name), text("d", 1)).expect("written");
    }
    let read = FirstRules::read(&Source::at(Some(folder.path())), &KeySecret::new([1; 16]));
    assert!(matches!(read, Err(LoadError::Mistakes(mistakes)) if mistakes.len() == 1));
}
