//! Merged batches mean what their parts meant, and replies find their way back.

use leasehold_limit::{Algorithm, Ask, Limit};
use leasehold_model::{Key, Nanos, RequestId, RulesVersion, Stamp, TenantId};
use leasehold_shard::{Acquire, Demand, Refund, Reset};
use proptest::prelude::*;

use super::*;

fn spec(n: u64) -> LimitSpec {
    let limit = Limit::new(Algorithm::SlidingLog, n + 1, Nanos::from_secs(1)).unwrap();
    LimitSpec { tenant: TenantId(n % 2), version: RulesVersion(1), since: Stamp::ZERO, limit }
}

fn demand() -> impl Strategy<Value = Demand> {
    (0..9_u64, 0..5_u32, any::<bool>()).prop_map(|(key, limit, shadow)| Demand {
        key: Key { high: key, low: 0 },
        limit,
        ask: Ask::exactly(1),
        shadow,
    })
}

fn command() -> impl Strategy<Value = Command> {
    let id = RequestId { session: 1, seq: 1 };
    prop_oneof![
        4 => prop::collection::vec(demand(), 0..4).prop_map(|demands| {
            Command::Acquire(Acquire { demands, ..Acquire::default() })
        }),
        1 => Just(Command::Refund(Refund { id, items: Vec::new() })),
        1 => Just(Command::Reset(Reset { keys: Vec::new() })),
    ]
}

/// Batches, and which of their commands have a reply already.
fn parts() -> impl Strategy<Value = Vec<(Batch, Vec<bool>)>> {
    let limits = prop::collection::vec((0..6_u64).prop_map(spec), 0..4);
    let settled = prop::collection::vec((0..3_u128, 0..99_u64), 0..3)
        .prop_map(|settled| settled.into_iter().map(|(session, below)| Settled { session, below }).collect());
    let commands = prop::collection::vec((command(), any::<bool>()), 0..5);
    let part = (limits, settled, commands).prop_map(|(limits, settled, commands)| {
        let (commands, known) = commands.into_iter().unzip();
        (Batch { limits, commands, settled, bounds: None }, known)
    });
    prop::collection::vec(part, 0..6)
}

/// Names a command: its batch and its place there.
fn reply(batch: usize, place: usize) -> Reply {
    Reply::Reset(u32::try_from(batch * 100 + place).unwrap())
}

fn merged(parts: &[(Batch, Vec<bool>)]) -> (Batch, Cuts) {
    merge(parts.iter().enumerate().map(|(n, (batch, known))| {
        let known = known.iter().enumerate().map(|(place, known)| known.then(|| reply(n, place)));
        Part { batch, known: known.collect() }
    }))
}

/// The commands that are left, by batch and place.
fn left(parts: &[(Batch, Vec<bool>)]) -> Vec<(usize, usize)> {
    let places = |(n, (_, known)): (usize, &(Batch, Vec<bool>))| {
        let open = known.iter().enumerate().filter(|(_, known)| !**known);
        open.map(|(place, _)| (n, place)).collect::<Vec<_>>()
    };
    parts.iter().enumerate().flat_map(places).collect()
}

/// A command with the limits that it points at in place of their numbers.
fn meaning(batch: &Batch, command: &Command) -> (Command, Vec<Option<LimitSpec>>) {
    let mut command = command.clone();
    let mut limits = Vec::new();
    if let Command::Acquire(acquire) = &mut command {
        for demand in &mut acquire.demands {
            limits.push(batch.limits.get(usize::try_from(demand.limit).unwrap()).cloned());
            demand.limit = 0;
        }
    }
    (command, limits)
}

proptest! {
    #[test]
    fn commands_keep_their_order_and_their_meaning(parts in parts()) {
        let (batch, _) = merged(&parts);
        let expected: Vec<_> = left(&parts)
            .into_iter()
            .map(|(n, place)| meaning(&parts[n].0, &parts[n].0.commands[place]))
            .collect();
        let found: Vec<_> = batch.commands.iter().map(|command| meaning(&batch, command)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn each_limit_stands_in_it_once(parts in parts()) {
        let (batch, _) = merged(&parts);
        let mut limits = batch.limits.clone();
        limits.sort();
        limits.dedup();
        prop_assert_eq!(limits.len(), batch.limits.len());
    }

    #[test]
    fn every_reply_returns_to_its_own_command(parts in parts()) {
        let (_, cuts) = merged(&parts);
        let replies = left(&parts).into_iter().map(|(n, place)| reply(n, place)).collect();
        let expected: Vec<Vec<Reply>> = parts
            .iter()
            .enumerate()
            .map(|(n, (batch, _))| (0..batch.commands.len()).map(|place| reply(n, place)).collect())
            .collect();
        prop_assert_eq!(cuts.cut(replies), Some(expected));
    }

    #[test]
    fn another_number_of_replies_is_nobodys(parts in parts(), less in any::<bool>()) {
        let (batch, cuts) = merged(&parts);
        let count = batch.commands.len();
        prop_assume!(count > 0 || !less);
        let replies = vec![Reply::Reset(0); if less { count - 1 } else { count + 1 }];
        prop_assert_eq!(cuts.cut(replies), None);
    }

    #[test]
    fn of_what_a_session_settled_the_furthest_counts(parts in parts()) {
        let (batch, _) = merged(&parts);
        for session in 0..3 {
            let told = |batch: &Batch| {
                batch.settled.iter().filter(|s| s.session == session).map(|s| s.below).collect::<Vec<_>>()
            };
            let furthest = parts.iter().flat_map(|(part, _)| told(part)).max();
            prop_assert_eq!(told(&batch), furthest.into_iter().collect::<Vec<_>>());
        }
    }
}
