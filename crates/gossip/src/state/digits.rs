//! Numbers as short text: base 36, lower case.

const BASE: u32 = 36;

/// The number as text.
pub(super) fn write(number: u64) -> String {
    let mut rest = number;
    let mut digits = Vec::with_capacity(13);
    loop {
        let digit = u32::try_from(rest % u64::from(BASE)).expect("a remainder is below the base");
        digits.push(char::from_digit(digit, BASE).expect("a remainder is below the base"));
        rest /= u64::from(BASE);
        if rest == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

/// The number that [`write()`] wrote as this text; None for any other text.
pub(super) fn read(text: &str) -> Option<u64> {
    let canonical = text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
        && (text.len() == 1 || !text.starts_with('0'));
    canonical.then(|| u64::from_str_radix(text, BASE).ok()).flatten()
}
