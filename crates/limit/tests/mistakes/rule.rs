//! Mistakes in one rule: its rate and numbers, its conditions, its words.

use crate::{rule, rule_with};

#[test]
fn a_rate_needs_a_time() {
    rule(
        "limit: 5",
        "3:23: limits[0].limit: \"5\" is no rate; write units per time, such as 5/min or 100/90s",
    );
}

#[test]
fn an_unknown_unit_suggests_the_nearest() {
    rule(
        "limit: 5/mintue",
        "3:23: limits[0].limit: \"mintue\" is no unit of time; did you mean minute? use second, minute, hour, day, week, month, year, or a duration such as 90s or 1h30m",
    );
}

#[test]
fn m_is_ambiguous() {
    rule("limit: 5/m", "3:23: limits[0].limit: `m` may mean minute or month; write min or month");
}

#[test]
fn a_negative_rate_is_no_number() {
    rule(
        "limit: -5/s",
        "3:23: limits[0].limit: \"-5\" is no whole number; write a whole number without sign, point or separators, such as 1000",
    );
}

#[test]
fn a_rate_is_whole() {
    rule(
        "limit: 1.5/s",
        "3:23: limits[0].limit: \"1.5\" is no whole number; write a whole number without sign, point or separators, such as 1000",
    );
}

#[test]
fn a_rate_fits_64_bits() {
    rule(
        "limit: 18446744073709551616/s",
        "3:23: limits[0].limit: \"18446744073709551616\" is too large; the largest number is 18446744073709551615",
    );
}

#[test]
fn a_duration_has_a_unit() {
    rule(
        "limit: 5/90",
        "3:23: limits[0].limit: \"90\" is no duration; write numbers with units w, d, h, m, s, ms, us, ns from large to small, such as 90s or 1h30m",
    );
}

#[test]
fn a_duration_goes_from_large_to_small() {
    rule(
        "limit: 5/30m1h",
        "3:23: limits[0].limit: \"30m1h\" is no duration; write numbers with units w, d, h, m, s, ms, us, ns from large to small, such as 90s or 1h30m",
    );
}

#[test]
fn a_duration_is_not_zero() {
    rule(
        "limit: 5/0s",
        "3:23: limits[0].limit: a duration of zero; a limit counts over some length of time, for example 1s",
    );
}

#[test]
fn a_period_fits_the_time_line() {
    rule(
        "limit: 5/31000w",
        "3:23: limits[0].limit: \"31000w\" is longer than 584 years; use a shorter period",
    );
}

#[test]
fn a_limit_of_nothing_is_refused() {
    rule(
        "limit: 0/s",
        "3:23: limits[0].limit: a limit of 0 can never admit; write at least 1; to block requests for good, refuse them in the proxy or the application",
    );
}

#[test]
fn a_window_of_nothing_is_refused() {
    rule(
        "limit: 0/day, algorithm: fixed_window",
        "3:23: limits[0].limit: a limit of 0 can never admit; write at least 1; to block requests for good, refuse them in the proxy or the application",
    );
}

#[test]
fn a_burst_of_nothing_is_refused() {
    rule_with(
        "burst: 0",
        "3:35: limits[0].burst: a burst of 0 can never admit; leave it out for burst = rate, or write at least 1",
    );
}

#[test]
fn a_burst_is_a_number() {
    rule_with(
        "burst: many",
        "3:35: limits[0].burst: \"many\" is no whole number; write a whole number without sign, point or separators, such as 1000",
    );
}

#[test]
fn a_burst_that_takes_centuries_to_refill_is_refused() {
    rule(
        "limit: 1/year, burst: 1000",
        "3:38: limits[0].burst: refilling 1000 units at 1 per 365d takes longer than 290 years; lower the burst or raise the rate",
    );
}

#[test]
fn a_window_has_no_burst() {
    rule_with(
        "algorithm: fixed_window, burst: 5",
        "3:60: limits[0].burst: fixed_window has no burst; leave it out, or use algorithm: token_bucket",
    );
}

#[test]
fn a_shaper_has_a_queue_and_no_burst() {
    rule_with(
        "algorithm: shaper, queue: 5, burst: 5",
        "3:64: limits[0].burst: shaper has no burst; use queue for the units that may wait",
    );
}

#[test]
fn a_shaper_needs_a_queue() {
    rule_with(
        "algorithm: shaper",
        "3:5: limits[0].queue: a shaper needs a queue; write queue: the units that may wait their turn, such as queue: 20",
    );
}

#[test]
fn a_queue_of_nothing_is_refused() {
    rule_with(
        "algorithm: shaper, queue: 0",
        "3:54: limits[0].queue: a queue of 0 can never admit; write at least 1",
    );
}

#[test]
fn a_bucket_has_no_queue() {
    rule_with(
        "queue: 5",
        "3:35: limits[0].queue: token_bucket has no queue; leave it out, or use algorithm: shaper",
    );
}

#[test]
fn a_sliding_log_is_bounded() {
    rule(
        "limit: 10001/s, algorithm: sliding_log",
        "3:23: limits[0].limit: sliding_log remembers every unit: 10001 is more than 10000; use algorithm: sliding_counter or token_bucket, whose counters don't grow with the limit",
    );
}

#[test]
fn an_algorithm_is_one_of_six() {
    rule_with(
        "algorithm: tokenbucket",
        "3:39: limits[0].algorithm: unknown value \"tokenbucket\"; did you mean token_bucket? use one of token_bucket, leaky_bucket, shaper, fixed_window, sliding_log, sliding_counter",
    );
}

#[test]
fn a_bucket_follows_no_zone() {
    rule_with(
        "zone: UTC",
        "3:34: limits[0].zone: only calendar windows follow a zone; leave it out, or use algorithm: fixed_window with minute, hour, day, week, month or year",
    );
}

#[test]
fn a_window_of_a_duration_follows_no_zone() {
    rule(
        "limit: 5/24h, algorithm: fixed_window, zone: Europe/Berlin",
        "3:61: limits[0].zone: windows of a duration begin at multiples of it since 1970 and follow no zone; leave it out, or use algorithm: fixed_window with minute, hour, day, week, month or year",
    );
}

#[test]
fn a_window_of_a_second_follows_no_zone() {
    rule(
        "limit: 5/s, algorithm: fixed_window, zone: Europe/Berlin",
        "3:59: limits[0].zone: a second is the same in every zone; leave it out, or use algorithm: fixed_window with minute, hour, day, week, month or year",
    );
}

#[test]
fn a_zone_is_known() {
    rule(
        "limit: 5/day, algorithm: fixed_window, zone: Mars/Olympus",
        "3:61: limits[0].zone: unknown time zone \"Mars/Olympus\"; use an IANA name such as UTC or Europe/Berlin",
    );
}

#[test]
fn a_share_is_no_percentage() {
    rule_with(
        "max_overshoot: 5%",
        "3:43: limits[0].max_overshoot: \"5%\" is no share; write a number from 0 to 1 with at most six decimals, such as 0.05 for five percent",
    );
}

#[test]
fn a_share_is_at_most_one() {
    rule_with(
        "max_overshoot: 1.5",
        "3:43: limits[0].max_overshoot: \"1.5\" is no share; write a number from 0 to 1 with at most six decimals, such as 0.05 for five percent",
    );
}

#[test]
fn a_share_has_six_decimals() {
    rule_with(
        "max_overshoot: 0.0000001",
        "3:43: limits[0].max_overshoot: \"0.0000001\" is no share; write a number from 0 to 1 with at most six decimals, such as 0.05 for five percent",
    );
}

#[test]
fn a_choice_lists_its_words() {
    rule_with(
        "on_unavailable: fail",
        "3:44: limits[0].on_unavailable: unknown value \"fail\"; use one of allow, deny, local",
    );
}

#[test]
fn a_choice_suggests_the_nearest() {
    rule_with(
        "scope: Global",
        "3:35: limits[0].scope: unknown value \"Global\"; did you mean global? use one of global, region",
    );
}

#[test]
fn a_truth_is_true_or_false() {
    rule_with("shadow: yes", "3:36: limits[0].shadow: unknown value \"yes\"; use one of true, false");
}

#[test]
fn a_condition_is_a_map() {
    rule_with(
        "when: [login]",
        "3:34: limits[0].when: expected a map, found a list; write attribute: value, such as { path: /login }; leave it out to match all",
    );
}

#[test]
fn a_star_stands_at_the_end() {
    rule_with(
        "when: { path: /users/*/posts }",
        "3:42: limits[0].when.path: star inside \"/users/*/posts\"; a star stands at the end only; for a literal star write { exact: .. } or { prefix: .. }",
    );
}

#[test]
fn a_condition_has_a_value() {
    rule_with(
        "when: { path: }",
        "3:40: limits[0].when.path: there is no value to compare with; write a text, text*, a list, or { cidr: [..] }; '' for an empty value, '*' for any",
    );
}

#[test]
fn alternatives_are_not_empty() {
    rule_with(
        "when: { plan: [] }",
        "3:42: limits[0].when.plan: an empty list matches nothing; list at least one value, or leave the condition out",
    );
}

#[test]
fn one_comparison_at_a_time() {
    rule_with(
        "when: { path: { exact: a, prefix: b } }",
        "3:42: limits[0].when.path: 2 comparisons, not one; write one of exact, prefix, one_of, cidr",
    );
}

#[test]
fn an_unknown_comparison_lists_the_known() {
    rule_with(
        "when: { path: { regex: a } }",
        "3:44: limits[0].when.path.regex: unknown field \"regex\"; the fields here are exact, prefix, one_of, cidr",
    );
}

#[test]
fn a_network_has_four_parts() {
    rule_with(
        "when: { ip: { cidr: [10.0.0/8] } }",
        "3:49: limits[0].when.ip.cidr[0]: \"10.0.0/8\" is no network; write an address and a length, such as 10.0.0.0/8 or 2001:db8::/32",
    );
}

#[test]
fn a_network_has_no_bits_beyond_its_length() {
    rule_with(
        "when: { ip: { cidr: [10.0.0.1/8] } }",
        "3:49: limits[0].when.ip.cidr[0]: 10.0.0.1/8 has bits set beyond its length; did you mean 10.0.0.0/8?",
    );
}

#[test]
fn an_attribute_has_a_good_name() {
    rule_with(
        "when: { a b: c }",
        "3:36: limits[0].when[\"a b\"]: \"a b\" is no attribute name; an attribute's name has 1 to 128 bytes and no blanks",
    );
}

#[test]
fn per_is_a_list() {
    rule_with(
        "per: ip",
        "3:33: limits[0].per: expected a list, found a single value; write a list, such as per: [ip]",
    );
}

#[test]
fn per_names_an_attribute_once() {
    rule_with("per: [ip, ip]", "3:38: limits[0].per[1]: \"ip\" is listed twice; list it once");
}

#[test]
fn per_is_bounded() {
    rule_with("per: [a, b, c, d, e, f, g, h, i]", "3:33: limits[0].per: 9 items, more than 8; keep it to 8");
}

#[test]
fn a_dimension_names_its_attribute() {
    rule_with(
        "per: [{ absent: share }]",
        "3:34: limits[0].per[0].attribute: it is missing; write { attribute: ip, absent: share }",
    );
}

#[test]
fn an_absent_attribute_has_three_meanings() {
    rule_with(
        "per: [{ attribute: ip, absent: shared }]",
        "3:59: limits[0].per[0].absent: unknown value \"shared\"; did you mean share? use one of skip, share, deny",
    );
}

#[test]
fn absent_needs_a_per() {
    rule_with(
        "absent: deny",
        "3:36: limits[0].absent: absent without per; leave it out: nothing can be absent",
    );
}

#[test]
fn a_local_share_goes_with_local() {
    rule_with(
        "local_share: 0.1",
        "3:41: limits[0].local_share: local_share without on_unavailable: local; leave it out, or write on_unavailable: local",
    );
}

#[test]
fn a_local_share_is_a_share() {
    rule_with(
        "on_unavailable: local, local_share: 10%",
        "3:64: limits[0].local_share: \"10%\" is no share; write a number from 0 to 1 with at most six decimals, such as 0.05 for five percent",
    );
}

#[test]
fn a_local_share_of_nothing_is_deny() {
    rule_with(
        "on_unavailable: local, local_share: 0",
        "3:64: limits[0].local_share: a share of 0 leaves edges nothing; write on_unavailable: deny instead of local",
    );
}

#[test]
fn an_owner_keeps_half() {
    rule_with(
        "on_unavailable: local, local_share: 0.500001",
        "3:64: limits[0].local_share: more than half is set aside, which nobody can use while all is well; write at most 0.5",
    );
}

#[test]
fn edges_share_something() {
    rule_with(
        "edges: 8",
        "3:35: limits[0].edges: edges without anything to share out among them; leave it out, or write on_unavailable: local or a max_overshoot",
    );
}

#[test]
fn a_limit_is_shared_by_1_to_1024_edges() {
    rule_with(
        "max_overshoot: 0.1, edges: 0",
        "3:55: limits[0].edges: 0 edges can't share a limit; write how many may, from 1 to 1024",
    );
    rule_with(
        "on_unavailable: local, edges: 1025",
        "3:58: limits[0].edges: 1025 edges can't share a limit; write how many may, from 1 to 1024",
    );
}

#[test]
fn what_goes_with_a_word_that_is_none_is_no_second_mistake() {
    rule_with(
        "on_unavailable: locl, local_share: 0.2, edges: 3",
        "3:44: limits[0].on_unavailable: unknown value \"locl\"; did you mean local? use one of allow, deny, local",
    );
}
