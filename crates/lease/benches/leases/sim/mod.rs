//! Twelve edges in three regions under one policy, in virtual time: what it costs, by meters that are exact.
//!
//! Not here: clocks that run at wrong speeds and edges that misbehave, which the crate's tests have.

mod chance;
mod meter;
mod net;
mod policy;
mod traffic;

use self::meter::{Meter, limit_of};
use self::net::{Net, Policy};
use self::policy::{Asking, Batches, Leases, Optimistic, Owners, Size, Static};
use self::traffic::Traffic;

pub(crate) use self::meter::{COLUMNS, Report};
pub(crate) use self::traffic::Workload;

/// After the last request, until every one that waits has its answer.
const AFTERWARDS_NANOS: u64 = 3_000_000_000;

/// How requests are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// Each at the owner.
    AskPerRequest,
    /// Each edge has a twelfth of the limit.
    Static,
    /// Each edge decides by what it last heard and tells every 100 ms what it admitted.
    Optimistic,
    /// Batches of so many tokens, for two seconds.
    FixedBatch(u64),
    /// Batches of a quarter of what the owner has left.
    QuarterOfRemaining,
    /// Leases as large as demand, but what is out doesn't hold back refilling.
    Uncoupled,
    /// Leases.
    Leases,
    /// Leases that go by a broker in each region.
    Brokers,
}

/// Every policy, as the table has them.
pub(crate) const ALL: [Which; 9] = [
    Which::AskPerRequest,
    Which::Static,
    Which::Optimistic,
    Which::FixedBatch(10),
    Which::FixedBatch(100),
    Which::QuarterOfRemaining,
    Which::Uncoupled,
    Which::Leases,
    Which::Brokers,
];

impl Which {
    /// As the table names it.
    pub(crate) fn name(self) -> String {
        match self {
            Self::AskPerRequest => "ask per request".to_owned(),
            Self::Static => "static share, L/12".to_owned(),
            Self::Optimistic => "optimistic, report each 100 ms".to_owned(),
            Self::FixedBatch(size) => format!("batches of {size}, for 2 s"),
            Self::QuarterOfRemaining => "a quarter of what remains".to_owned(),
            Self::Uncoupled => "by demand, uncoupled".to_owned(),
            Self::Leases => "leases".to_owned(),
            Self::Brokers => "leases, region brokers".to_owned(),
        }
    }
}

/// Runs one policy on one workload; with `crashes`, owners crash six times, two seconds apart.
pub(crate) fn run(which: Which, workload: Workload, crashes: bool) -> Report {
    let limit = limit_of(workload);
    match which {
        Which::AskPerRequest => drive(Asking::new(limit, workload.keys), workload, crashes),
        Which::Static => drive(Static::new(&limit, workload.keys), workload, crashes),
        Which::Optimistic => drive(Optimistic::new(limit, workload.keys), workload, crashes),
        Which::FixedBatch(size) => {
            drive(Batches::new(limit, workload.keys, Size::Fixed(size)), workload, crashes)
        }
        Which::QuarterOfRemaining => {
            drive(Batches::new(limit, workload.keys, Size::Quarter), workload, crashes)
        }
        Which::Uncoupled => {
            drive(Leases::new(Owners::uncoupled(limit, workload.keys), false), workload, crashes)
        }
        Which::Leases => drive(Leases::new(Owners::coupled(limit, workload.keys), false), workload, crashes),
        Which::Brokers => drive(Leases::new(Owners::coupled(limit, workload.keys), true), workload, crashes),
    }
}

fn drive<P: Policy>(mut policy: P, workload: Workload, crashes: bool) -> Report {
    let mut net = Net::new(Meter::new(workload), workload.seed, crashes);
    let mut arrived = 0;
    for arrival in Traffic::new(workload) {
        net.run(&mut policy, arrival.at);
        net.meter.arrived(arrival);
        arrived += 1;
        policy.arrive(arrival, &mut net);
    }
    let end = net.now() + AFTERWARDS_NANOS;
    net.run(&mut policy, end);
    let report = net.meter.report();
    assert!(crashes || report.decisions == arrived, "{} of {arrived} requests decided", report.decisions);
    report
}
