//! What is said of every mistake in a rule file: its place, what is wrong, what to write instead.

mod file;
mod overrides;
mod rule;

use leasehold_limit::KeySecret;
use leasehold_limit::rules;

/// All mistakes of a file, a line each: `line:column: field: message; fix`.
fn file(text: &str, expected: &str) {
    let errors = rules::parse("f", text, &KeySecret::new([7; 16])).expect_err("a mistake");
    let shown: Vec<String> = errors.iter().map(|error| error.to_string().replacen("f:", "", 1)).collect();
    assert_eq!(shown.join("\n"), expected, "{text}");
}

/// A rule with only a name and these fields, in line 3.
fn rule(fields: &str, expected: &str) {
    file(&format!("domain: api\nlimits:\n  - {{ name: a, {fields} }}\n"), expected);
}

/// A good rule with these fields added, in line 3.
fn rule_with(fields: &str, expected: &str) {
    rule(&format!("limit: 1/s, {fields}"), expected);
}

const RULES: &str = "domain: api
limits:
  - { name: plan, limit: 1/s, per: [api_key] }
  - { name: quota, limit: 1/day, per: [api_key], algorithm: fixed_window, zone: Europe/Berlin }
  - { name: all, limit: 1/s }
overrides:
  - { limit: plan, values: [gold], set: { limit: 5/s } }
";

/// A good file with this override added, in line 8.
fn override_with(fields: &str, expected: &str) {
    file(&format!("{RULES}  - {{ {fields} }}\n"), expected);
}
