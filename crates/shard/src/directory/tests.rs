//! The directory of counters against a plain map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn entry(key: Key, word: u64) -> Entry {
    Entry { key, words: [word, 0], limit: 0, high: [0; 3], shape: None }
}

/// Spreads small numbers over all 128 bits.
fn uniform(n: u64) -> Key {
    let mix = |x: u64| {
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    Key { high: mix(n.wrapping_add(0x9e37_79b9_7f4a_7c15)), low: mix(!n) }
}

fn same(directory: &Directory, model: &BTreeMap<Key, u64>) {
    assert_eq!(directory.len(), model.len());
    assert!(directory.iter().map(|e| (e.key, e.words[0])).eq(model.iter().map(|(k, v)| (*k, *v))));
}

#[derive(Clone, Debug)]
enum Op {
    Insert(Key, u64),
    Remove(Key),
    From(Key),
}

fn ops(key: impl Strategy<Value = Key> + Clone) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        3 => (key.clone(), any::<u64>()).prop_map(|(key, word)| Op::Insert(key, word)),
        2 => key.clone().prop_map(Op::Remove),
        1 => key.prop_map(Op::From),
    ];
    proptest::collection::vec(op, 0..3_000)
}

fn check(ops: Vec<Op>) {
    let (mut directory, mut model) = (Directory::new(), BTreeMap::new());
    for op in ops {
        match op {
            Op::Insert(key, word) => {
                assert_eq!(directory.insert(entry(key, word)).map(|e| e.words[0]), model.insert(key, word));
                assert_eq!(directory.get(key).map(|e| e.words[0]), Some(word));
            }
            Op::Remove(key) => {
                assert_eq!(directory.remove(key).map(|e| e.words[0]), model.remove(&key));
                assert!(directory.get_mut(key).is_none());
            }
            Op::From(key) => {
                let first = model.range(key..).next().map(|(key, _)| *key);
                assert_eq!(directory.first_from(key).map(|e| e.key), first);
            }
        }
    }
    same(&directory, &model);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn it_is_an_ordered_map_for_uniform_keys(ops in ops((0u64..2_000).prop_map(uniform))) {
        check(ops);
    }

    #[test]
    fn it_is_an_ordered_map_for_keys_that_share_all_top_bits(
        ops in ops((0u64..2_000).prop_map(|low| Key { high: 7, low })),
    ) {
        check(ops);
    }

    #[test]
    fn it_is_an_ordered_map_for_keys_at_both_ends(
        ops in ops(prop_oneof![
            (0u64..500).prop_map(|low| Key { high: 0, low }),
            (0u64..500).prop_map(|n| Key { high: u64::MAX - n, low: u64::MAX }),
        ]),
    ) {
        check(ops);
    }
}

#[test]
fn it_grows_and_shrinks_without_losing_a_key() {
    const N: u64 = 50_000;
    let (mut directory, mut model) = (Directory::new(), BTreeMap::new());
    for n in 0..N {
        directory.insert(entry(uniform(n), n));
        model.insert(uniform(n), n);
    }
    same(&directory, &model);
    let grown = directory.now.buckets.len();
    assert!(grown >= 512, "{grown} buckets");
    for n in 0..N - 20 {
        assert_eq!(directory.remove(uniform(n)).map(|e| e.words[0]), Some(n));
        model.remove(&uniform(n));
    }
    same(&directory, &model);
    assert!(directory.now.buckets.len() <= 8, "{} buckets for 20 keys", directory.now.buckets.len());
}
