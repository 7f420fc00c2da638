//! What a node needs of files before it serves.

use super::*;

/// What a secret file of this text is answered with.
fn check(text: &str, expected: Result<(), &str>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("secret");
    std::fs::write(&path, text).expect("written");
    match (secret(Some(&path)), expected) {
        (Ok(_), Ok(())) => {}
        (Err(StartError::Secret { message, .. }), Err(expected)) => {
            assert!(message.contains(expected), "{text:?}: {message}");
        }
        (answer, _) => panic!("{text:?}: {answer:?}"),
    }
}

#[test]
fn a_key_secret_is_32_hexadecimal_digits() {
    check("00112233445566778899aabbccddeeff", Ok(()));
    check("00112233445566778899AABBCCDDEEFF\n", Ok(()));
    check("", Err("32 hexadecimal digits"));
    check("00112233445566778899aabbccddeef", Err("32 hexadecimal digits"));
    check("+0112233445566778899aabbccddeeff", Err("32 hexadecimal digits"));
    check("0011223344556677889\u{e9}aabbccddeef", Err("32 hexadecimal digits"));
}

#[test]
fn one_secret_gives_the_same_names_at_each_start_and_none_gives_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("secret");
    std::fs::write(&path, "00112233445566778899aabbccddeeff").expect("written");
    let tenant = |path| secret(path).expect("a secret").tenant("d");
    assert_eq!(tenant(Some(&path)), tenant(Some(&path)));
    assert_ne!(tenant(None), tenant(None));
}

#[test]
fn the_default_configuration_takes_in_what_the_doors_do_by_default() {
    let config = Config::default();
    let limits = doors::client_limits(&config.intake, config.drain_seconds);
    assert_eq!(limits, leasehold_front::ServerLimits::default());
    let bounds = shard_bounds(&CountersConfig::default());
    assert_eq!(bounds, Bounds::default());
}

#[test]
fn rules_that_are_not_there_are_named() {
    let config = Config { rules: Some("no/such/rules.yaml".into()), ..Config::default() };
    let error = core(&config).expect_err("no rules").to_string();
    assert!(error.starts_with("reading rules from no/such/rules.yaml: "), "{error}");
}

#[test]
fn a_secret_is_read_from_a_file_and_from_nothing_that_never_ends() {
    let error = secret(Some(Path::new("/dev/zero"))).expect_err("a device").to_string();
    assert!(error.contains("/dev/zero") && error.contains("not a regular file"), "{error}");
}

#[test]
fn a_request_may_ask_a_counter_of_every_rule_that_a_domain_may_have() {
    let items_max = usize::try_from(shard_bounds(&CountersConfig::default()).items_max).expect("small");
    assert!(leasehold_limit::rules::RULES_MAX <= items_max);
}
