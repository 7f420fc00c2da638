//! What every actor of a world has to do with: its time, its chance, its network, who watches, and the story that is told.
//!
//! Invariant: what happens next is the earliest event, and of those of one moment the one that was put in first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use leasehold_lease::{LeaseAsk, Leased};
use leasehold_model::{Key, RequestId, RulesVersion, Stamp};
use leasehold_shard::{Command, LimitSpec, Reply, Settled};

use crate::chance::Chance;
use crate::clocks::Time;
use crate::invariants::Watch;
use crate::log::Speech;
use crate::net::{Net, Place};
use crate::plan::Plan;

/// What is sent.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// Between replicas.
    Log {
        /// Of which group.
        group: usize,
        /// What is said.
        speech: Speech,
    },
    /// A node asks the one that it takes for a group's leader.
    Route {
        /// Names the answer.
        call: (u64, u32, u64),
        /// Which group.
        group: usize,
        /// What is asked.
        asked: Rc<Asked>,
    },
    /// The answer.
    Routed {
        /// As it came.
        call: (u64, u32, u64),
        /// What came of it.
        outcome: Outcome,
    },
    /// A client's request: units of several counters, all or none.
    Check {
        /// Its id.
        id: RequestId,
        /// What of which.
        costs: Rc<[(Key, u64)]>,
    },
    /// The answer.
    Checked {
        /// Its id.
        id: RequestId,
        /// What it is.
        verdict: Verdict,
    },
    /// An edge asks for units.
    Ask {
        /// Under which id.
        id: RequestId,
        /// For what.
        ask: Rc<LeaseAsk>,
        /// Under which numbers.
        spec: Rc<LimitSpec>,
        /// What it won't ask again.
        settled: Settled,
    },
    /// The answer.
    Leased {
        /// Under which id.
        id: RequestId,
        /// None: it won't be carried out.
        leased: Option<Leased>,
    },
    /// An edge wants to know the rules.
    WantRules,
    /// They are these.
    Rules(Rules),
}

/// What a leader is asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// What to do.
    pub(crate) what: What,
    /// The numbers that it names.
    pub(crate) limits: Vec<LimitSpec>,
    /// What a session won't ask again.
    pub(crate) settled: Option<Settled>,
}

/// What to do.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// On a shard.
    Shard(Command),
    /// On the control state.
    Control(leasehold_control::Command),
}

/// What came of asking a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is done.
    Reply(Reply),
    /// It is done on the control state.
    Control(leasehold_control::Reply),
    /// It doesn't lead; who does, as far as it knows. Nothing was done.
    NotLeader(Option<usize>),
    /// It has too much to do. Nothing was done.
    Overloaded,
}

/// A client's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Charged to all.
    Allowed,
    /// Charged to none.
    OverLimit,
    /// Nobody could say; nothing or something may have been charged.
    Unknown,
    /// A bound refused it.
    Full,
}

/// The rules in force, as somebody knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Their version.
    pub(crate) version: RulesVersion,
    /// Since when.
    pub(crate) since: Stamp,
    /// Which set they are.
    pub(crate) set: usize,
}

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A message comes.
    Deliver {
        /// From whom.
        from: Place,
        /// To whom.
        to: Place,
        /// What.
        message: Message,
    },
    /// Time passes for a node's replicas.
    Tick {
        /// Which.
        node: usize,
        /// In which of its lives.
        life: u64,
    },
    /// A sync is done.
    Synced {
        /// Whose.
        node: usize,
        /// In which of its lives.
        life: u64,
    },
    /// A job has waited long enough for an answer, or for its next try.
    Job {
        /// Whose.
        node: usize,
        /// In which of its lives.
        life: u64,
        /// Which.
        job: u64,
        /// Which try.
        attempt: u32,
    },
    /// A wallet wanted to be called.
    Wake {
        /// Whose.
        place: Place,
        /// In which of its lives.
        life: u64,
    },
    /// Requests come to an edge.
    Arrive {
        /// Which.
        edge: usize,
        /// For which counter.
        key: usize,
    },
    /// An edge asks for the rules.
    Poll {
        /// Which.
        edge: usize,
    },
    /// A client thinks of a new request.
    Think {
        /// Which.
        client: usize,
    },
    /// The client that probes asks once more.
    Probe,
    /// A client's request has waited.
    Patience {
        /// Which.
        client: usize,
        /// Which request.
        id: RequestId,
        /// Which try.
        attempt: u32,
    },
    /// A fault happens.
    Fault,
    /// One ends.
    Mend(Mend),
    /// All end.
    Heal,
    /// Sizes and states are looked at.
    Look,
}

/// The end of a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mend {
    /// A node starts.
    Start(usize),
    /// A machine goes on.
    Resume(Place),
    /// A disk has room, and is as fast as ever.
    Disk(usize),
    /// Messages come as ever.
    Net,
    /// An edge starts.
    Edge(usize),
    /// An election in a group that one node led is looked at, and so often again.
    Doubt(usize, usize, u64),
}

#[derive(Debug)]
struct Queued {
    at: Time,
    nth: u64,
    event: Event,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.nth) == (other.at, other.nth)
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.nth).cmp(&(other.at, other.nth))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Ctx {
    /// True time.
    pub(crate) now: Time,
    /// What the seed decided.
    pub(crate) plan: Rc<Plan>,
    /// All chance.
    pub(crate) chance: Chance,
    /// The network.
    pub(crate) net: Net,
    /// Who watches.
    pub(crate) watch: Watch,
    queue: BinaryHeap<Reverse<Queued>>,
    nth: u64,
    hash: u64,
    story: Option<Vec<(Time, String)>>,
}

impl Ctx {
    /// Of a plan. With a story, what happens is told.
    #[must_use]
    pub(crate) fn new(plan: Rc<Plan>, story: bool) -> Self {
        Self {
            now: 0,
            chance: Chance::new(plan.seed),
            net: Net::new(plan.regions, plan.far),
            watch: Watch::new(Rc::clone(&plan)),
            plan,
            queue: BinaryHeap::new(),
            nth: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            story: story.then(Vec::new),
        }
    }

    /// Has something happen.
    pub(crate) fn at(&mut self, at: Time, event: Event) {
        self.nth += 1;
        self.queue.push(Reverse(Queued { at: at.max(self.now), nth: self.nth, event }));
    }

    /// Sends something.
    pub(crate) fn send(&mut self, from: Place, to: Place, message: Message) {
        let arrivals = self.net.arrivals(from, to, self.now, &mut self.chance);
        for at in arrivals.into_iter().flatten() {
            self.at(at, Event::Deliver { from, to, message: message.clone() });
        }
    }

    /// What happens next, before `end`.
    pub(crate) fn next(&mut self, end: Time) -> Option<Event> {
        let Reverse(first) = self.queue.peek()?;
        if first.at >= end {
            return None;
        }
        let Reverse(Queued { at, nth, event }) = self.queue.pop()?;
        self.now = at;
        self.mark(at ^ nth.rotate_left(32));
        Some(event)
    }

    /// Takes something into the hash of all that happened.
    pub(crate) fn mark(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }

    /// The hash of all that happened.
    #[must_use]
    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    /// How many events there were.
    #[must_use]
    pub(crate) const fn events(&self) -> u64 {
        self.nth
    }

    /// Tells it, if anybody listens.
    pub(crate) fn tell(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push((self.now, what()));
        }
    }

    /// The story so far.
    pub(crate) fn take_story(&mut self) -> Vec<(Time, String)> {
        self.story.take().unwrap_or_default()
    }

    /// Whether faults may happen.
    #[must_use]
    pub(crate) fn is_calm(&self) -> bool {
        self.now >= self.plan.calm_at
    }
}
