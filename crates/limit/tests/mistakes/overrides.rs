//! Mistakes in an override.

use crate::override_with;

#[test]
fn an_override_names_a_rule_of_the_file() {
    override_with(
        "limit: plam, values: [acme], set: { limit: 9/s }",
        "8:14: overrides[1].limit: there is no rule \"plam\"; did you mean plan? write the name of a rule of this file",
    );
}

#[test]
fn an_override_has_a_value_for_each_attribute() {
    override_with(
        "limit: plan, values: [acme, x], set: { limit: 9/s }",
        "8:28: overrides[1].values: 2 values, the rule has 1 in per; write a value for each of [api_key], in this order",
    );
}

#[test]
fn a_rule_without_per_has_nothing_to_override() {
    override_with(
        "limit: all, values: [acme], set: { limit: 9/s }",
        "8:27: overrides[1].values: all has no per: it has one counter and nothing to tell apart; change the rule's own numbers, or give it a per",
    );
}

#[test]
fn an_override_sets_something() {
    override_with(
        "limit: plan, values: [acme], set: {}",
        "8:41: overrides[1].set: nothing is set; write limit, burst or queue",
    );
}

#[test]
fn an_override_sets_numbers_only() {
    override_with(
        "limit: plan, values: [acme], set: { algorithm: shaper }",
        "8:43: overrides[1].set.algorithm: unknown field \"algorithm\"; the fields here are limit, burst, queue",
    );
}

#[test]
fn an_override_can_admit() {
    override_with(
        "limit: plan, values: [acme], set: { burst: 0 }",
        "8:50: overrides[1].set.burst: a burst of 0 can never admit; leave it out for burst = rate, or write at least 1",
    );
}

#[test]
fn an_override_fits_the_algorithm() {
    override_with(
        "limit: plan, values: [acme], set: { queue: 3 }",
        "8:50: overrides[1].set.queue: token_bucket has no queue; leave it out, or use algorithm: shaper",
    );
}

#[test]
fn an_override_keeps_the_zone_in_mind() {
    override_with(
        "limit: quota, values: [acme], set: { limit: 9/24h }",
        "8:51: overrides[1].set.limit: windows of a duration begin at multiples of it since 1970 and follow no zone; leave it out, or use algorithm: fixed_window with minute, hour, day, week, month or year",
    );
}

#[test]
fn values_are_overridden_once() {
    override_with(
        "limit: plan, values: [gold], set: { limit: 9/s }",
        "8:28: overrides[1].values: a second override of plan for these values; keep one of them",
    );
}

#[test]
fn an_override_needs_values() {
    override_with(
        "limit: plan, set: { limit: 9/s }",
        "8:5: overrides[1].values: it is missing; write values: one for each attribute in the rule's per",
    );
}
