//! Durations, numbers and tables as people read them.

use super::*;

fn check_duration(nanos: u64, expected: &str) {
    assert_eq!(duration(nanos), expected, "{nanos} ns");
}

#[test]
fn lengths_of_time_are_rounded_up_to_what_people_read() {
    check_duration(0, "0s");
    check_duration(7, "7ns");
    check_duration(1_001, "2us");
    check_duration(250_000_000, "250ms");
    check_duration(1_500_000_000, "1.5s");
    check_duration(11_999_999_999, "12s");
    check_duration(60_000_000_000, "60s");
    check_duration(90_000_000_000, "1m 30s");
    check_duration(3_600_000_000_001, "1h 1m");
    check_duration(172_800_000_000_000, "2d");
}

#[test]
fn counts_have_their_thousands_apart() {
    assert_eq!([count(0), count(999), count(1_000), count(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
}

#[test]
fn a_failure_names_each_cause_once_and_the_next_step() {
    let error = anyhow::anyhow!("connection refused").context("cannot reach the server");
    let text = describe(&Failure::error(error).next("start one"), false);
    assert_eq!(text, "error: cannot reach the server\n  caused by: connection refused\n  next: start one");
}

#[test]
fn tables_align_words_left_and_numbers_right() {
    let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["bcd".to_owned(), "1000".to_owned()]];
    assert_eq!(table(&[text("rule"), number("left")], rows), "RULE  LEFT\na        1\nbcd   1000\n");
}

#[test]
fn what_a_terminal_would_act_on_is_not_printed_and_takes_one_column() {
    assert_eq!(visible("a\tb\n\u{e9}\u{4e2d}"), "a\tb\n\u{e9}\u{4e2d}");
    assert_eq!(visible("\u{1b}[31mx\u{9b}y\u{202e}z\r\0"), "\u{fffd}[31mx\u{fffd}y\u{fffd}z\u{fffd}\u{fffd}");
    let rows = [vec!["\u{1b}[2J".to_owned()]];
    assert!(!table(&[text("rule")], rows).contains('\u{1b}'));
    let text = describe(&Failure::error(anyhow!("\u{1b}b").context("\u{1b}a")), false);
    assert!(!text.contains('\u{1b}'), "{text:?}");
}
