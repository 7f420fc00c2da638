//! What a sketch promises of any stream.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn key(number: u64) -> Key {
    Key { high: number, low: 0 }
}

fn sketch(stream: &[u64]) -> Sketch<()> {
    let mut sketch = Sketch::default();
    for &number in stream {
        sketch.see(key(number), number.is_multiple_of(2), || ());
    }
    sketch
}

fn truth(stream: &[u64]) -> BTreeMap<Key, u64> {
    let mut counts = BTreeMap::new();
    for &number in stream {
        *counts.entry(key(number)).or_default() += 1;
    }
    counts
}

/// Every promise, of entries that stand for a stream.
fn check(stream: &[u64], entries: &[Entry<()>], unlisted_max: u64) {
    let truth = truth(stream);
    for Entry { key, count, error, .. } in entries {
        let seen = truth.get(key).copied().unwrap_or_default();
        assert!(*count >= seen && count - error <= seen, "{key} was seen {seen} times: {count} - {error}");
    }
    for (key, seen) in truth {
        let held = entries.iter().any(|entry| entry.key == key);
        assert!(held || seen <= unlisted_max, "{key} was seen {seen} times, and isn't held: {unlisted_max}");
    }
}

/// Few keys often and many seldom.
fn stream() -> impl Strategy<Value = Vec<u64>> {
    vec(prop_oneof![0..8_u64, 0..400_u64, any::<u64>()], 0..1_000)
}

proptest! {
    // Each looks at a thousand keys or two.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_count_is_never_too_low_and_too_high_by_its_error_at_most(stream in stream()) {
        let sketch = sketch(&stream);
        let most = u64::try_from(ENTRIES_MAX).unwrap();
        prop_assert!(sketch.entries().len() <= ENTRIES_MAX);
        prop_assert!(sketch.unlisted_max() <= sketch.total() / most);
        check(&stream, sketch.entries(), sketch.unlisted_max());
    }

    #[test]
    fn two_sketches_together_promise_the_same_of_both_streams(one in stream(), other in stream()) {
        let (first, second) = (sketch(&one), sketch(&other));
        let unlisted = first.unlisted_max() + second.unlisted_max();
        check(&[one, other].concat(), &first.and(&second), unlisted);
    }
}

#[test]
fn few_keys_are_counted_exactly_and_with_their_refusals() {
    let sketch = sketch(&[1, 2, 2, 3, 2]);
    let told: Vec<_> = sketch.entries().iter().map(|e| (e.key.high, e.count, e.error, e.refused)).collect();
    assert_eq!(told, [(1, 1, 0, 0), (2, 3, 0, 3), (3, 1, 0, 0)]);
    assert_eq!((sketch.total(), sketch.unlisted_max()), (5, 0));
}
