//! Shares and whole numbers in rule files.

use super::*;

#[test]
fn shares_are_read_exactly() {
    for (text, ppm) in [
        ("0", 0),
        ("0.0", 0),
        ("0.05", 50_000),
        ("0.000001", 1),
        ("0.0500000000", 50_000),
        ("1", PPM),
        ("1.0", PPM),
    ] {
        assert_eq!(parse_share(text), Some(ppm), "{text}");
    }
}

#[test]
fn what_is_no_share_is_refused() {
    for text in
        ["", ".", ".5", "5.", "-0.1", "+0.1", "1.000001", "2", "1e-2", "0.0000001", "0,5", "99999999999", "٠"]
    {
        assert_eq!(parse_share(text), None, "{text}");
    }
}
