//! Mistakes in the file as a whole: its syntax, its bounds, its names.

use crate::file;

#[test]
fn an_empty_file_says_what_to_write() {
    file("# nothing yet\n", "1:1: the file is empty; write at least `domain` and `limits`");
}

#[test]
fn a_file_must_be_a_map() {
    file(
        "- domain: api\n",
        "1:1: expected a map, found a list; write a map of the fields domain, attributes, limits, overrides",
    );
}

#[test]
fn a_domain_is_required() {
    file(
        "limits: []\n",
        "1:1: domain: it is missing; name the domain in the first line, such as domain: api",
    );
}

#[test]
fn limits_are_required() {
    file("domain: api\n", "1:1: limits: it is missing; write limits: a list of rules");
}

#[test]
fn a_domain_follows_its_pattern() {
    file(
        "domain: \"a b\"\nlimits: []\n",
        "1:9: domain: \"a b\" is no domain name; a domain is a letter or digit, then up to 127 letters, digits, _ . : / or -",
    );
}

#[test]
fn a_value_must_be_there() {
    file("domain:\nlimits: []\n", "1:7: domain: there is no value; write a name such as api");
}

#[test]
fn limits_are_a_list() {
    file(
        "domain: api\nlimits: { login: 5/min }\n",
        "2:9: limits: expected a list, found a map; write a list, such as - { name: login, limit: 5/min }",
    );
}

#[test]
fn an_unknown_field_suggests_the_nearest() {
    file(
        "domain: api\nlimits: []\noverides: []\n",
        "3:1: overides: unknown field \"overides\"; did you mean overrides? the fields here are domain, attributes, limits, overrides",
    );
}

#[test]
fn a_word_of_other_limiters_points_to_ours() {
    file(
        "domain: api\nrules: []\nlimits: []\n",
        "2:1: rules: unknown field \"rules\"; use limits; the fields here are domain, attributes, limits, overrides",
    );
}

#[test]
fn syntax_errors_have_a_place() {
    file(
        "domain: api\nlimits:\n  - name: a\n     limit: 1/s\n",
        "4:11: mapping values are not allowed in this context; rules are YAML: mend the syntax at this place or just before it",
    );
}

#[test]
fn a_second_document_is_refused() {
    file(
        "domain: api\nlimits: []\n---\ndomain: b\n",
        "3:1: a second document begins here; write one domain a file, without `---`",
    );
}

#[test]
fn a_key_given_twice_is_refused() {
    file(
        "domain: api\nlimits: []\ndomain: b\n",
        "3:1: key \"domain\" is given twice, first in line 1; keep one of them",
    );
}

#[test]
fn anchors_and_aliases_are_refused() {
    file(
        "domain: api\nlimits: &all []\noverrides: *all\n",
        "2:9: an anchor: anchors and aliases are not supported; leave it out and write the value where it is used\n3:12: an alias: anchors and aliases are not supported; write the value out; a text that begins with * needs quotes",
    );
}

#[test]
fn tags_are_refused() {
    file(
        "domain: !name api\nlimits: []\n",
        "1:9: a tag: tags are not supported; leave it out, or put the text in quotes",
    );
}

#[test]
fn a_list_is_no_key() {
    file(
        "domain: api\nlimits: []\n? [a]\n: b\n",
        "3:3: a list as a key; keys are plain names; a text that begins with { or [ needs quotes",
    );
}

#[test]
fn nesting_is_bounded() {
    file(
        "domain: api\nlimits: [[[[[[[[[[[[[[[[[[\n",
        "2:24: nested deeper than 16 levels; no field of a rule needs that",
    );
}

#[test]
fn a_bare_star_needs_quotes() {
    file(
        "domain: api\nlimits:\n  - { name: a, limit: 1/s, when: { path: * } }\n",
        "3:42: while scanning an anchor or alias, did not find expected alphabetic or numeric character; a text that begins with * or & needs quotes, such as '*'",
    );
}

#[test]
fn a_rule_is_a_map() {
    file(
        "domain: api\nlimits:\n  - login\n",
        "3:5: limits[0]: expected a map, found a single value; write a map of the fields name, when, per, limit, burst, queue, algorithm, zone, absent, lease, max_overshoot, scope, on_unavailable, local_share, edges, shadow",
    );
}

#[test]
fn a_rule_needs_a_name() {
    file(
        "domain: api\nlimits:\n  - { limit: 1/s }\n",
        "3:5: limits[0].name: it is missing; give every rule a name, such as name: login",
    );
}

#[test]
fn a_rule_needs_a_limit() {
    file(
        "domain: api\nlimits:\n  - { name: a }\n",
        "3:5: limits[0].limit: it is missing; write limit: units per time, such as limit: 5/min",
    );
}

#[test]
fn a_name_follows_its_pattern() {
    file(
        "domain: api\nlimits:\n  - { name: 1st, limit: 1/s }\n",
        "3:13: limits[0].name: \"1st\" is no name; a name is a letter, then up to 63 letters, digits, _ . or -",
    );
}

#[test]
fn a_name_belongs_to_one_rule() {
    file(
        "domain: api\nlimits:\n  - { name: a, limit: 1/s }\n  - { name: a, limit: 2/s }\n",
        "4:13: limits[1].name: the name \"a\" is taken by the rule in line 3; give every rule of a domain its own name",
    );
}

#[test]
fn an_undeclared_attribute_suggests_the_nearest() {
    file(
        "domain: api\nattributes: [ip, api_key]\nlimits:\n  - { name: a, limit: 1/s, per: [apikey] }\n",
        "4:34: limits[0].per[0]: unknown attribute \"apikey\"; did you mean api_key? list it in attributes, or use one of those",
    );
}

#[test]
fn an_undeclared_attribute_in_a_condition_is_found() {
    file(
        "domain: api\nattributes: [ip]\nlimits:\n  - { name: a, limit: 1/s, when: { method: GET } }\n",
        "4:36: limits[0].when.method: unknown attribute \"method\"; list it in attributes, or use one of those",
    );
}

#[test]
fn attributes_are_declared_once() {
    file(
        "domain: api\nattributes: [ip, ip]\nlimits: []\n",
        "2:18: attributes[1]: \"ip\" is listed twice; list it once",
    );
}
