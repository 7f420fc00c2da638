//! Rule files that change while they are in force.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_front::AdminError;
use leasehold_model::Nanos;
use leasehold_shard::Bounds;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::files::Reload;
use super::*;
use crate::authority::LocalAuthority;
use crate::kept::Log;

/// An event or a poll comes within this, on a busy machine too.
const NOTICED_WITHIN: Nanos = Nanos::from_secs(15);

fn rules(domain: &str, n: u64) -> String {
    format!("domain: {domain}\nlimits:\n  - {{ name: a, limit: {n}/min }}\n")
}

fn bad() -> &'static str {
    "domain: d\nlimits:\n  - { name: a, limit: 5/fortnight }\n"
}

fn load(source: Source) -> FileRules {
    load_for(source, None)
}

fn load_for(source: Source, fallback_domain: Option<&str>) -> FileRules {
    let fallback_domain = fallback_domain.map(str::to_owned);
    FileRules::load(source, KeySecret::new([1; 16]), Arc::new(Metrics::new()), fallback_domain)
        .expect("valid rules")
}

fn book(rules: &FileRules) -> Arc<RuleBook> {
    Arc::clone(&rules.in_force().active().expect("loaded").book)
}

/// One file in a folder of its own.
fn one_file(text: &str) -> (TempDir, PathBuf, FileRules) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rules.yaml");
    fs::write(&path, text).expect("written");
    let rules = load(Source::at(Some(&path)));
    (folder, path, rules)
}

fn n(rules: &FileRules, domain: &str) -> u64 {
    book(rules).domains[domain].rules[0].limit.n()
}

fn version(rules: &FileRules) -> u64 {
    book(rules).version.0
}

fn rename_over(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).expect("written");
    fs::rename(&beside, path).expect("renamed");
}

#[test]
fn the_built_in_examples_are_valid_and_read_only() {
    let rules = load(Source::at(None));
    assert_eq!(rules.in_force().status().source, "built in");
    assert!(book(&rules).domains.contains_key("api"));
    assert!(matches!(rules.put(&rules_of(&rules, "api"), None), Err(AdminError::ReadOnly(_))));
}

fn rules_of(rules: &FileRules, domain: &str) -> String {
    book(rules).domains[domain].source.to_string()
}

#[test]
fn the_version_counts_up_at_each_change_and_at_nothing_else() {
    let (_folder, path, in_force) = one_file(&rules("d", 1));
    assert_eq!((version(&in_force), in_force.reload()), (1, Reload::Unchanged));
    rename_over(&path, &rules("d", 1));
    assert_eq!(in_force.reload(), Reload::Unchanged);
    rename_over(&path, &rules("d", 2));
    assert_eq!(in_force.reload(), Reload::Accepted(RulesVersion(2)));
    assert_eq!((version(&in_force), n(&in_force, "d")), (2, 2));
}

#[test]
fn a_bad_file_leaves_the_old_rules_in_force_and_says_where_it_is_wrong() {
    let (_folder, path, in_force) = one_file(&rules("d", 1));
    fs::write(&path, bad()).expect("written");
    assert_eq!(in_force.reload(), Reload::Refused);
    assert_eq!(in_force.reload(), Reload::Unchanged);
    assert_eq!((version(&in_force), n(&in_force, "d")), (1, 1));
    let status = in_force.in_force().status();
    assert_eq!((status.reloads_accepted, status.reloads_refused), (0, 1));
    assert_eq!((status.errors.len(), status.errors[0].line), (1, 3));
    let page = in_force.in_force().metrics.page(0, 0);
    assert!(page.contains(r#"leasehold_rules_reloads_total{result="refused"} 1"#), "{page}");

    fs::write(&path, rules("d", 2)).expect("written");
    assert_eq!(in_force.reload(), Reload::Accepted(RulesVersion(2)));
    assert_eq!(in_force.in_force().status().errors, []);
}

#[test]
fn a_file_that_is_again_what_is_in_force_mends_the_status_and_changes_nothing() {
    let (_folder, path, in_force) = one_file(&rules("d", 1));
    fs::write(&path, bad()).expect("written");
    in_force.reload();
    fs::write(&path, rules("d", 1)).expect("written");
    assert_eq!(in_force.reload(), Reload::Unchanged);
    assert_eq!((in_force.in_force().status().errors, version(&in_force)), (vec![], 1));

    fs::remove_file(&path).expect("removed");
    assert_eq!((in_force.reload(), in_force.in_force().status().errors.len()), (Reload::Refused, 1));
    fs::write(&path, rules("d", 1)).expect("written");
    assert_eq!(in_force.reload(), Reload::Unchanged);
    assert_eq!((in_force.in_force().status().errors, version(&in_force)), (vec![], 1));
}

#[test]
fn a_folder_is_read_as_one_set_and_hidden_files_are_nobodys() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    file("a.yaml", &rules("a", 1));
    file("b.yml", &rules("b", 2));
    file(".c.yaml.swp", "editor's");
    file(".d.yaml", "hidden");
    file("README.md", "not rules");
    let in_force = load(Source::at(Some(folder.path())));
    assert_eq!((n(&in_force, "a"), n(&in_force, "b")), (1, 2));
    assert_eq!(book(&in_force).domains.len(), 2);

    file("c.yaml", &rules("a", 3));
    assert_eq!(in_force.reload(), Reload::Refused);
    assert_eq!(n(&in_force, "a"), 1);
    fs::remove_file(folder.path().join("c.yaml")).expect("removed");
    fs::remove_file(folder.path().join("b.yml")).expect("removed");
    assert_eq!(in_force.reload(), Reload::Accepted(RulesVersion(2)));
    assert_eq!(book(&in_force).domains.len(), 1);
}

#[test]
fn an_emptied_folder_is_a_mistake_and_not_an_end_of_all_limits() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("a.yaml"), rules("a", 1)).expect("written");
    let in_force = load(Source::at(Some(folder.path())));
    fs::remove_file(folder.path().join("a.yaml")).expect("removed");
    assert_eq!(in_force.reload(), Reload::Refused);
    assert_eq!(n(&in_force, "a"), 1);
}

#[test]
fn a_put_is_written_and_not_taken_for_somebody_elses_change() {
    let (_folder, path, in_force) = one_file(&rules("d", 1));
    assert_eq!(in_force.put(&rules("d", 2), Some(RulesVersion(1))), Ok(RulesVersion(2)));
    assert_eq!(fs::read_to_string(&path).expect("there"), rules("d", 2));
    assert_eq!((in_force.reload(), n(&in_force, "d")), (Reload::Unchanged, 2));
    assert_eq!(in_force.put(&rules("d", 2), None), Ok(RulesVersion(2)), "the same rules are no change");
    let left: Vec<_> = fs::read_dir(path.parent().expect("a folder")).expect("read").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_put_on_a_stale_version_conflicts() {
    let (_folder, path, in_force) = one_file(&rules("d", 1));
    // Somebody edits the file, and nobody has told us yet.
    fs::write(&path, rules("d", 7)).expect("written");
    let conflict = AdminError::Conflict { expected: RulesVersion(1), current: RulesVersion(2) };
    assert_eq!(in_force.put(&rules("d", 2), Some(RulesVersion(1))), Err(conflict));
    assert_eq!(fs::read_to_string(&path).expect("there"), rules("d", 7));
}

#[test]
fn a_bad_put_changes_neither_file_nor_rules() {
    let (_folder, path, in_force) = one_file(&rules("d", 1));
    let Err(AdminError::Invalid(mistakes)) = in_force.put(bad(), None) else { panic!("accepted") };
    assert_eq!((mistakes.len(), mistakes[0].line), (1, 3));
    assert_eq!(fs::read_to_string(&path).expect("there"), rules("d", 1));
    assert_eq!(version(&in_force), 1);
}

#[test]
fn a_new_domain_gets_a_file_of_its_own_in_a_folder_and_none_beside_a_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("a.yaml"), rules("a", 1)).expect("written");
    let in_force = load(Source::at(Some(folder.path())));
    assert_eq!(in_force.put(&rules("b", 2), None), Ok(RulesVersion(2)));
    assert_eq!(fs::read_to_string(folder.path().join("b.yaml")).expect("there"), rules("b", 2));
    assert_eq!((n(&in_force, "a"), n(&in_force, "b")), (1, 2));

    let (_folder, _, in_force) = one_file(&rules("d", 1));
    assert!(matches!(in_force.put(&rules("other", 1), None), Err(AdminError::ReadOnly(_))));
}

#[test]
fn a_put_beside_a_file_that_cant_be_read_takes_no_other_domains_limits_away() {
    let unreadable: [&dyn Fn(&Path); 3] = [
        &|path| fs::write(path, b"domain: \xff\xfe").expect("written"),
        &|path| fs::write(path, "#".repeat(2 << 20)).expect("written"),
        &|path| {
            fs::remove_file(path).expect("removed");
            symlink("nowhere", path).expect("linked");
        },
    ];
    for spoil in unreadable {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for domain in ["a", "b", "c"] {
            fs::write(folder.path().join(domain).with_extension("yaml"), rules(domain, 1)).expect("written");
        }
        let in_force = load(Source::at(Some(folder.path())));
        spoil(&folder.path().join("c.yaml"));
        let Err(AdminError::Failed(why)) = in_force.put(&rules("a", 2), None) else { panic!("accepted") };
        assert!(why.contains("c.yaml"), "{why}");
        assert_eq!((version(&in_force), book(&in_force).domains.len()), (1, 3));
        assert_eq!(fs::read_to_string(folder.path().join("a.yaml")).expect("there"), rules("a", 1));

        fs::remove_file(folder.path().join("c.yaml")).expect("removed");
        fs::write(folder.path().join("c.yaml"), rules("c", 3)).expect("written");
        assert_eq!(in_force.put(&rules("a", 2), None), Ok(RulesVersion(3)));
        assert_eq!(["a", "b", "c"].map(|domain| n(&in_force, domain)), [2, 1, 3]);
    }
}

#[test]
fn a_put_mends_a_file_that_cant_be_read() {
    let (_folder, path, in_force) = one_file(&rules("d", 1));
    fs::write(&path, b"domain: \xff\xfe").expect("written");
    assert_eq!(in_force.put(&rules("d", 2), None), Ok(RulesVersion(2)));
    assert_eq!((n(&in_force, "d"), in_force.in_force().status().errors), (2, vec![]));
}

#[test]
fn a_put_mends_a_file_that_is_bad_on_disk() {
    let (_folder, path, in_force) = one_file(&rules("d", 1));
    fs::write(&path, bad()).expect("written");
    assert_eq!(in_force.put(&rules("d", 2), None), Ok(RulesVersion(2)));
    assert_eq!(fs::read_to_string(&path).expect("there"), rules("d", 2));
    assert_eq!(in_force.in_force().status().errors, []);
}

#[test]
fn what_may_not_be_written_is_read_only() {
    let (_folder, path, in_force) = one_file(&rules("d", 1));
    let mut permissions = fs::metadata(&path).expect("there").permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).expect("changed");
    assert!(matches!(in_force.put(&rules("d", 2), None), Err(AdminError::ReadOnly(_))));
    assert_eq!((version(&in_force), n(&in_force, "d")), (1, 1));
}

/// A folder with a file for each of these domains.
fn folder_of(domains: &[&str]) -> (TempDir, FileRules) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for domain in domains {
        fs::write(folder.path().join(format!("{domain}.yaml")), rules(domain, 1)).expect("written");
    }
    let rules = load(Source::at(Some(folder.path())));
    (folder, rules)
}

#[test]
fn a_domain_that_is_removed_takes_its_file_along_and_the_watcher_sees_nothing_new() {
    let (folder, rules) = folder_of(&["a", "b"]);
    let conflict = AdminError::Conflict { expected: RulesVersion(7), current: RulesVersion(1) };
    assert_eq!(rules.remove("a", Some(RulesVersion(7))), Err(conflict));
    assert_eq!(rules.remove("a", Some(RulesVersion(1))), Ok(RulesVersion(2)));
    assert!(!folder.path().join("a.yaml").exists() && folder.path().join("b.yaml").exists());
    assert_eq!(book(&rules).domains.keys().map(|name| &**name).collect::<Vec<_>>(), ["b"]);
    assert_eq!(rules.reload(), Reload::Unchanged);
    let gone = rules.remove("a", None).expect_err("it is gone");
    assert!(matches!(&gone, AdminError::NotFound(why) if why.contains("there are: b")), "{gone}");
}

#[test]
fn rules_that_cannot_be_removed_stay_and_it_is_said_why() {
    let (folder, last) = folder_of(&["a"]);
    let (_file, path, only) = one_file(&rules("d", 1));
    let (linked, links) = (tempfile::tempdir().expect("a temporary folder"), folder_of(&["b"]).0);
    config_map(linked.path(), "..1", &rules("d", 1));
    fs::copy(links.path().join("b.yaml"), linked.path().join("b.yaml")).expect("copied");
    let linked_rules = load(Source::at(Some(linked.path())));
    for (rules, domain, why) in [
        (&last, "a", "the last rule file"),
        (&only, "d", "all the rules there are"),
        (&linked_rules, "d", "a symbolic link"),
        (&load(Source::at(None)), "api", "built-in examples"),
    ] {
        let refused = rules.remove(domain, None).expect_err("it is refused");
        assert!(matches!(&refused, AdminError::ReadOnly(told) if told.contains(why)), "{refused}");
        assert_eq!(version(rules), 1);
    }
    assert!(folder.path().join("a.yaml").exists() && path.exists());
}

#[test]
fn a_file_that_nobody_may_write_is_not_removed() {
    let (folder, rules) = folder_of(&["a", "b"]);
    let path = folder.path().join("a.yaml");
    let mut permissions = fs::metadata(&path).expect("there").permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).expect("changed");
    assert!(matches!(rules.remove("a", None), Err(AdminError::ReadOnly(_))));
    assert!(path.exists() && version(&rules) == 1);
}

/// A volume as Kubernetes mounts a ConfigMap: files are links into `..data`, which is a link that is swapped.
fn config_map(folder: &Path, generation: &str, text: &str) {
    fs::create_dir(folder.join(generation)).expect("made");
    fs::write(folder.join(generation).join("rules.yaml"), text).expect("written");
    symlink(generation, folder.join("..next")).expect("linked");
    fs::rename(folder.join("..next"), folder.join("..data")).expect("swapped");
    if !folder.join("rules.yaml").is_symlink() {
        symlink("..data/rules.yaml", folder.join("rules.yaml")).expect("linked");
    }
}

#[test]
fn a_linked_file_is_not_replaced_by_a_put() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    config_map(folder.path(), "..1", &rules("d", 1));
    let in_force = load(Source::at(Some(folder.path())));
    assert!(matches!(in_force.put(&rules("d", 2), None), Err(AdminError::ReadOnly(_))));
    assert!(folder.path().join("rules.yaml").is_symlink());
}

/// Watches, makes a change, and waits until it is in force.
async fn noticed(source: Source, change: impl FnOnce()) {
    let in_force = Arc::new(load(source));
    let stop = CancellationToken::new();
    let watching = tokio::spawn(Watch::new(Arc::clone(&in_force)).run(stop.clone()));
    change();
    let started = crate::clock::boot();
    while n(&in_force, "d") != 2 {
        let waited = crate::clock::boot().since(started);
        assert!(waited < NOTICED_WITHIN, "not noticed in {waited}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(version(&in_force), 2);
    stop.cancel();
    watching.await.expect("the watcher ends");
}

#[tokio::test]
async fn a_file_renamed_over_is_noticed() {
    let (_folder, path, _) = one_file(&rules("d", 1));
    noticed(Source::at(Some(&path)), || rename_over(&path, &rules("d", 2))).await;
}

#[tokio::test]
async fn a_file_written_in_place_is_noticed() {
    let (_folder, path, _) = one_file(&rules("d", 1));
    noticed(Source::at(Some(&path)), || fs::write(&path, rules("d", 2)).expect("written")).await;
}

#[tokio::test]
async fn a_config_map_that_is_swapped_is_noticed_as_a_folder_and_as_a_file() {
    for as_file in [false, true] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        config_map(folder.path(), "..1", &rules("d", 1));
        let path = if as_file { folder.path().join("rules.yaml") } else { folder.path().to_owned() };
        noticed(Source::at(Some(&path)), || config_map(folder.path(), "..2", &rules("d", 2))).await;
    }
}

#[tokio::test]
async fn puts_and_the_watcher_dont_race() {
    let (_folder, path, _) = one_file(&rules("d", 1));
    let in_force = Arc::new(load(Source::at(Some(&path))));
    let stop = CancellationToken::new();
    let watching = tokio::spawn(Watch::new(Arc::clone(&in_force)).run(stop.clone()));
    for n in 2..30 {
        let (in_force, text) = (Arc::clone(&in_force), rules("d", n));
        let put = tokio::task::spawn_blocking(move || in_force.put(&text, Some(RulesVersion(n - 1))));
        assert_eq!(put.await.expect("no panic"), Ok(RulesVersion(n)));
    }
    stop.cancel();
    watching.await.expect("the watcher ends");
    assert_eq!((in_force.reload(), version(&in_force)), (Reload::Unchanged, 29));
}

#[test]
fn the_first_rules_always_were_in_force_and_later_ones_are_since_they_were_swapped_in() {
    let (_folder, path, rules) = one_file(&rules("d", 1));
    let line = LocalAuthority::new(Bounds::default()).line();
    let rules = rules.since_by(line.clone());
    assert_eq!(book(&rules).since, Stamp::ZERO);
    let before = line.now();
    fs::write(&path, self::rules("d", 2)).expect("written");
    assert_eq!(rules.reload(), Reload::Accepted(RulesVersion(2)));
    let since = book(&rules).since;
    assert!(before <= since && since <= line.now(), "{since}");
}

#[test]
fn what_is_no_file_among_the_rules_is_a_mistake_and_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("a.yaml"), rules("a", 1)).expect("written");
    let rules = load(Source::at(Some(folder.path())));
    let pipe = folder.path().join("b.yaml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    assert_eq!(rules.reload(), Reload::Refused);
    let mistake = rules.in_force().status().errors.remove(0).to_string();
    assert!(mistake.contains("b.yaml") && mistake.contains("not a regular file"), "{mistake}");
    assert_eq!(n(&rules, "a"), 1);
}

#[test]
fn a_domain_without_rules_that_requests_fall_back_to_or_that_had_some_is_warned_of() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["a", "b"] {
        fs::write(folder.path().join(format!("{name}.yaml")), rules(name, 1)).expect("written");
    }
    let log = Log::keep();
    let rules = load_for(Source::at(Some(folder.path())), Some("b"));
    assert!(!log.text().contains("WARN"), "{}", log.text());
    fs::remove_file(folder.path().join("b.yaml")).expect("removed");
    rules.reload();
    let text = log.text();
    assert!(
        text.contains("WARN") && text.contains("no rules any more") && text.contains("domain=\"b\""),
        "{text}"
    );
    assert!(text.contains("authorize.domain has no rules"), "{text}");
    assert!(!text.contains("domain=\"a\""), "{text}");

    let log = Log::keep();
    let _rules = load_for(Source::at(Some(folder.path())), Some("aa"));
    assert!(log.text().contains("authorize.domain has no rules"), "{}", log.text());
}
