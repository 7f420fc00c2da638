//! What a check of a leased key costs in process: through a handle, through the authority, through the whole engine.
//!
//! `cargo bench -p leasehold-client --bench check`. The owner is in this process and answers at once; it is asked for one
//! decision in some thousands. One thread, the machine's own clock.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use leasehold_client::{AtOnce, AuthoritySettings, Client, Clock, KnownRules, LeaseAuthority, SystemClock};
use leasehold_decide::{Authority, Proposal, Terms};
use leasehold_limit::Ask;
use leasehold_limit::check::Attribute;
use leasehold_model::{RulesVersion, Stamp};
use leasehold_shard::{Acquire, Batch, Command, Demand, LimitSpec};
use tokio::runtime::Runtime;
use tokio::sync::watch;

#[path = "../tests/it/owner.rs"]
#[expect(dead_code, reason = "tests use more of it")]
mod owner;

use owner::{Edge, Faults, Owner};

const RULES: &str = "domain: api\nlimits:\n  - { name: hot, per: [user], limit: 1000000000/s }\n";
/// Few enough that each is hot.
const HOT: usize = 100;
/// So many that each is asked for a few times a second: too seldom to hold a lease for long, so its owner is asked for
/// every other one, and the figure is what asking costs in this process.
const USERS: usize = 10_000;

/// Nothing here waits: who would is asked again.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

fn rules() -> Arc<KnownRules> {
    Arc::new(KnownRules::of(RulesVersion(1), [7; 16], [RULES.to_owned()]).expect("valid rules"))
}

fn proposal(rules: &KnownRules, user: &str) -> Proposal {
    let attributes = [Attribute { name: "user", value: user.as_bytes() }];
    let matched = rules.book.matching("api", &attributes).expect("the domain").remove(0);
    let spec = LimitSpec {
        tenant: matched.rule.tenant,
        version: RulesVersion(1),
        since: Stamp::ZERO,
        limit: matched.limit.as_ref().clone(),
    };
    let key = matched.key.expect("a counter");
    let demands = vec![Demand { key, limit: 0, ask: Ask::exactly(1), shadow: false }];
    let acquire = Acquire { id: None, remember_denial: true, demands };
    let batch = Batch { limits: vec![spec], commands: vec![Command::Acquire(acquire)], ..Batch::default() };
    Proposal { batch, terms: vec![Terms::of(&matched)] }
}

fn clock(criterion: &mut Criterion) {
    criterion.bench_function("the clock alone", |bencher| bencher.iter(|| black_box(SystemClock.boot())));
}

fn through_a_client(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let _entered = runtime.enter();
    let owner = Owner::new(Faults::default());
    let (_keep, known) = watch::channel(Some(rules()));
    let client =
        Client::over(Edge::new(&owner, 1), known, Arc::new(SystemClock), AuthoritySettings::default());
    let handle = client.handle("api", &[("user", "a")]).expect("a handle");
    let warm = |_| runtime.block_on(handle.check(1)).expect("an answer");
    (0..1_000).for_each(|step| drop(warm(step)));
    criterion.bench_function("handle.spend, one key", |bencher| {
        bencher.iter(|| match handle.spend(1) {
            AtOnce::Allowed { left } => left,
            AtOnce::Denied { .. } | AtOnce::Unknown => {
                drop(warm(0));
                0
            }
        });
    });
    criterion.bench_function("client.check, one key", |bencher| {
        bencher.iter(|| now(client.check("api", &[("user", "a")], 1)));
    });
}

fn through_the_authority(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let _entered = runtime.enter();
    let owner = Owner::new(Faults::default());
    let settings = AuthoritySettings::default();
    let authority = LeaseAuthority::start(Edge::new(&owner, 1), Arc::new(SystemClock), settings);
    let known = rules();
    let proposals: Vec<_> = (0..USERS).map(|user| proposal(&known, &user.to_string())).collect();
    let rows = [
        ("authority.propose, one key", 1),
        ("authority.propose, 100 keys", HOT),
        ("authority.propose, 10,000 keys", USERS),
    ];
    for (name, keys) in rows {
        let proposals = &proposals[..keys];
        for proposal in proposals.iter().cycle().take(keys.max(1_000) * 2) {
            runtime.block_on(authority.propose(proposal.clone(), None)).expect("an answer");
        }
        let mut next = proposals.iter().cycle();
        let mut one = || next.next().expect("a cycle has no end").clone();
        criterion.bench_function(name, |bencher| {
            let propose = |proposal| now(authority.propose(proposal, None));
            bencher.iter_batched(&mut one, propose, BatchSize::SmallInput);
        });
    }
}

criterion_group!(benches, clock, through_a_client, through_the_authority);
criterion_main!(benches);
