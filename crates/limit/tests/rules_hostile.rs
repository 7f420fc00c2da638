//! Rule files from people who mean harm: no text panics, hangs or multiplies, and every refusal says something.

use std::fmt::Write;

use leasehold_limit::KeySecret;
use leasehold_limit::rules::{self, RuleError};
use proptest::prelude::*;

const SECRET: KeySecret = KeySecret::new([7; 16]);

const GOOD: &str = r"
domain: api
attributes: [path, ip, plan, api_key]
limits:
  - name: login
    when: { path: '/api/*', ip: { cidr: [10.0.0.0/8, '2001:db8::/32'] } }
    per: [{ attribute: ip, absent: share }]
    limit: 5/min
    algorithm: sliding_log
    lease: never
    on_unavailable: deny
  - name: plan-free
    when: { plan: [free, 'trial*'], path: { one_of: ['*'] } }
    per: [api_key]
    limit: 6000/1h30m
    burst: 200
    max_overshoot: 0.05
    shadow: false
  - { name: quota, limit: 9/month, algorithm: fixed_window, zone: Europe/Berlin, scope: region }
  - { name: smooth, limit: 9/s, algorithm: shaper, queue: 5, per: [ip], absent: deny }
overrides:
  - { limit: plan-free, values: [acme], set: { limit: 100000/hour } }
";

/// Reads `text`; a refusal must name at least one mistake, each with a place in the text.
fn read(text: &str) -> Result<(), Vec<RuleError>> {
    let errors = match rules::parse("f", text, &SECRET) {
        Ok(_) => return Ok(()),
        Err(errors) => errors,
    };
    assert!(!errors.is_empty(), "a refusal without a reason: {text:?}");
    let lines = text.split('\n').count() + text.matches(['\r', '\u{85}', '\u{2028}', '\u{2029}']).count();
    for error in &errors {
        assert!((1..=lines + 1).contains(&error.line) && error.column >= 1, "{error} in {text:?}");
        assert!(error.to_string().len() < 1_500, "a message of a size that the file chose: {error}");
    }
    Err(errors)
}

#[test]
fn the_file_that_is_mutated_below_is_good() {
    assert_eq!(read(GOOD), Ok(()));
}

#[test]
fn aliases_multiply_nothing() {
    let mut text = "domain: api\na0: &a0 [x, x]\n".to_owned();
    for level in 1..60 {
        let below = level - 1;
        writeln!(text, "a{level}: &a{level} [*a{below}, *a{below}]").unwrap();
    }
    let errors = read(&text).unwrap_err();
    assert!(errors.iter().any(|error| error.message.contains("anchors and aliases")));
}

#[test]
fn nesting_of_any_depth_and_kind_is_refused() {
    for open in ["[", "{", "{a: ", "[{a: ", "- ", "? ", "a:\n- "] {
        read(&open.repeat(30_000)).unwrap_err();
        read(&format!("domain: api\nlimits: {}", open.repeat(1_000))).unwrap_err();
    }
    let stairs: String = (0..400).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(read(&stairs).unwrap_err().iter().any(|error| error.message.contains("nested deeper")));
}

#[test]
fn size_is_bounded_in_every_direction() {
    let message = |text: &str| read(text).unwrap_err()[0].message.clone();
    assert!(message(&" ".repeat((1 << 20) + 1)).contains("more than 1048576"));
    let rules: String = (0..257).map(|index| format!("  - {{ name: r{index}, limit: 1/s }}\n")).collect();
    assert!(message(&format!("domain: api\nlimits:\n{rules}")).contains("more than 256"));
    let keys: String = (0..20_000).map(|index| format!("k{index}: 1\n")).collect();
    assert!(message(&keys).contains("more than 128 keys"));
    let values = vec!["x"; 257].join(", ");
    let rule = format!("domain: api\nlimits:\n  - {{ name: a, limit: 1/s, when: {{ x: [{values}] }} }}\n");
    assert!(message(&rule).contains("more than 256"));
}

#[test]
fn noise_gets_a_bounded_list_of_mistakes() {
    let noise: String =
        (0..250).map(|index| format!("  - {{ name: 1{index}, limit: x, burst: y }}\n")).collect();
    let errors = read(&format!("domain: api\nlimits:\n{noise}")).unwrap_err();
    assert_eq!(errors.len(), 101);
    assert!(errors[100].message.starts_with("more than 100 mistakes"));
}

#[test]
fn long_texts_are_cut_in_messages() {
    let long = "x".repeat(100_000);
    for text in [
        format!("{long}: 1\n"),
        format!("domain: {long}\n"),
        format!("domain: api\nlimits: [{{ name: a, limit: {long}/s }}]\n"),
        format!("domain: api\nlimits: [{{ name: a, limit: 1/{long} }}]\n"),
        format!("domain: api\nlimits: [{{ name: a, limit: 1/s, when: {{ {long}: {{ cidr: {long} }} }} }}]\n"),
        format!(
            "domain: api\nlimits: [{{ name: a, limit: 1/day, algorithm: fixed_window, zone: {long} }}]\n"
        ),
    ] {
        read(&text).unwrap_err();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        let _ = read(&text);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn yaml_shaped_noise_never_panics(
        pieces in proptest::collection::vec(
            prop::sample::select(vec![
                "domain: ", "limits:", "\n", "\n  ", "- ", "{", "}", "[", "]", ", ", ": ", "name: a", "limit: 1/s", "&a ",
                "*a", "!t ", "|\n", ">-\n", "\"", "'", "#", "---\n", "...\n", "? ", "per: ", "when: ", "x", "\t", "~", "%",
            ]),
            0..60,
        ),
    ) {
        let _ = read(&pieces.concat());
    }

    #[test]
    fn a_good_file_with_damage_is_read_or_refused_with_reasons(
        cuts in proptest::collection::vec((0..GOOD.len(), 0..12_usize, "[ -~\n]{0,6}"), 1..4),
    ) {
        let mut text = GOOD.to_owned();
        for (at, length, insert) in cuts {
            let at = at.min(text.len());
            let end = (at + length).min(text.len());
            text.replace_range(at..end, &insert);
        }
        let _ = read(&text);
    }
}
