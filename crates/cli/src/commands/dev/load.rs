//! `--load`: checks for the edge of each region to decide, so that there is something to watch.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use leasehold_limit::rules::{Lease, Rule, RuleBook};
use leasehold_wire::proto::leasehold::v1 as pb;
use leasehold_wire::proto::leasehold::v1::limiter_client::LimiterClient;
use rand::Rng as _;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tonic::transport::{Channel, Endpoint};

use super::sample;
use crate::bench::clock::now;

/// A rule with room for any load, for when no rules were named: what is asked is decided, not refused.
pub(super) const RULES_YAML: &str = "\
# What `leasehold dev --load` asks for.
domain: load
limits:
  - { name: busy, per: [key], limit: 10000/second }
";

/// Counters that are asked for: busy ones, of which each region leads some.
const KEYS: u32 = 4;
/// How often checks are sent; what is due by then goes at once.
const EVERY: Duration = Duration::from_millis(20);
/// Checks of one region without an answer. At the bound those that are due are left out: the edge is slower than the load.
const UNDER_WAY_MAX: usize = 64;
/// Between attempts to reach an edge.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest time that is told apart.
const MICROS_MAX: u64 = 60_000_000;

/// How long answers took since it was last looked at.
#[derive(Clone, Debug)]
pub(super) struct Latencies(Arc<Mutex<Histogram<u64>>>);

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, MICROS_MAX, 2).expect("constants in range");
        Self(Arc::new(Mutex::new(histogram)))
    }
}

impl Latencies {
    fn note(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(MICROS_MAX);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(micros);
    }

    /// The median in microseconds, of what came since the last look; `None`: nothing did.
    pub(super) fn take_p50_us(&self) -> Option<u64> {
        let mut histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let p50 = (!histogram.is_empty()).then(|| histogram.value_at_quantile(0.5));
        histogram.reset();
        p50
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub(super) struct Load {
    requests: Arc<[pb::CheckRequest]>,
    per_second: u32,
}

impl Load {
    /// Checks that the rule with the most room applies to. `None`: there is no rule that is leased.
    pub(super) fn new(book: &RuleBook, per_second: u32) -> Option<Self> {
        let rules = book.domains.values().flat_map(|domain| &domain.rules);
        let leased = rules.filter(|rule| rule.lease == Lease::Auto);
        let rule = leased.max_by_key(|rule| units_per_day(rule))?;
        Some(Self { requests: (1..=KEYS).map(|key| request(rule, key)).collect(), per_second })
    }

    /// Asks an edge until dropped.
    pub(super) async fn run(self, edge: SocketAddr, latencies: Latencies) {
        let client = connect(edge).await;
        let mut tick = interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let began = now();
        let (mut sent, mut under_way) = (0, JoinSet::new());
        loop {
            tick.tick().await;
            while under_way.try_join_next().is_some() {}
            let due = began.elapsed().as_millis() * u128::from(self.per_second) / 1_000;
            while sent < due {
                sent += 1;
                if under_way.len() < UNDER_WAY_MAX {
                    under_way.spawn(self.clone().ask(client.clone(), latencies.clone()));
                }
            }
        }
    }

    async fn ask(self, mut client: LimiterClient<Channel>, latencies: Latencies) {
        let place = rand::rng().random_range(0..self.requests.len());
        let asked = now();
        // What an edge can't decide shows in what it counts.
        if client.check(self.requests[place].clone()).await.is_ok() {
            latencies.note(asked.elapsed());
        }
    }
}

async fn connect(edge: SocketAddr) -> LimiterClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{edge}")).expect("an address is a URL's");
    let endpoint = endpoint.tcp_nodelay(true);
    loop {
        match endpoint.connect().await {
            Ok(channel) => return LimiterClient::new(channel),
            Err(_) => sleep(PAUSE).await,
        }
    }
}

fn units_per_day(rule: &Rule) -> u128 {
    const DAY_NS: u128 = 86_400_000_000_000;
    u128::from(rule.limit.n()) * DAY_NS / u128::from(rule.limit.period().0).max(1)
}

fn request(rule: &Rule, key: u32) -> pb::CheckRequest {
    let attributes = sample::attributes(rule, &format!("203.0.113.{key}"), &format!("load-{key}"));
    let attribute =
        |(name, value): (String, String)| pb::Attribute { name, value: value.into_bytes().into() };
    pb::CheckRequest {
        domain: rule.domain.to_string(),
        attributes: attributes.into_iter().map(attribute).collect(),
        ..pb::CheckRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use leasehold_limit::KeySecret;
    use leasehold_limit::rules::parse;

    use super::*;

    #[test]
    fn the_rule_with_the_most_room_that_is_leased_is_asked_for() {
        let text = "
domain: d
limits:
  - { name: exact, per: [user], limit: 9000/second, lease: never }
  - { name: wide, when: { path: /a/* }, per: [ip], limit: 100/second }
  - { name: narrow, per: [user], limit: 5000/minute }
";
        let domain = parse("rules.yaml", text, &KeySecret::new([0; 16])).expect("it is right");
        let mut book = RuleBook::default();
        book.domains.insert("d".into(), domain);
        let load = Load::new(&book, 1).expect("there is a rule");
        let names: Vec<_> = load.requests[0].attributes.iter().map(|it| it.name.as_str()).collect();
        assert_eq!((load.requests.len(), names), (4, vec!["ip", "path"]));
    }

    #[test]
    fn a_median_is_that_of_what_came_since_the_last_look() {
        let latencies = Latencies::default();
        assert_eq!(latencies.take_p50_us(), None);
        for micros in [40, 50, 60] {
            latencies.note(Duration::from_micros(micros));
        }
        assert_eq!(latencies.take_p50_us(), Some(50));
        assert_eq!(latencies.take_p50_us(), None);
    }
}
