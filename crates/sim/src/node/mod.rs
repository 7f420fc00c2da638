//! A node: its replicas, what it asks of leaders for others, and what it lends to edges of its region.
//!
//! Invariant: a life ends with everything that wasn't on disk. What comes for an earlier life finds nobody.

mod ask;
mod check;
mod job;
mod lead;

use std::collections::BTreeMap;
use std::rc::Rc;

use leasehold_lease::Settings;
use leasehold_model::{BootTime, Key};
use leasehold_shard::LimitSpec;

pub(crate) use job::Cont;
use job::Job;
pub(crate) use lead::{Back, Seat};

use crate::clocks::{Clocks, MILLI, Time};
use crate::ctx::{Ctx, Event, Message, Outcome, Rules};
use crate::disk::Disk;
use crate::holder::{Holder, Wants};
use crate::invariants::Applied;
use crate::log::{BEAT, Content, Entry, Out, Replica};
use crate::machine::{Machine, Replies};
use crate::net::Place;
use crate::plan::{FLOODED, Plan};
use crate::reached::State;

use self::check::Check;

/// A node's replicas look at their clocks so often.
const TICK: Time = 25 * MILLI;
/// A sync takes so long at least.
const SYNC: Time = MILLI;
/// Entries that followers may lack without needing a snapshot.
const KEPT: u64 = 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Node {
    /// Which.
    pub(crate) id: usize,
    /// Counted up at each start.
    pub(crate) life: u64,
    /// Whether its process runs.
    pub(crate) up: bool,
    /// Its machine's clocks.
    pub(crate) clocks: Clocks,
    /// Its disk.
    pub(crate) disk: Disk,
    /// Its replicas, by group.
    pub(crate) seats: BTreeMap<usize, Seat>,
    /// Who holds which group.
    groups: Rc<Vec<Vec<usize>>>,
    jobs: BTreeMap<u64, Job>,
    checks: BTreeMap<u64, Check>,
    next: u64,
    broker: Holder,
    /// The rules that it goes by.
    pub(crate) rules: Rules,
    /// Whom it heard to lead each group: hints.
    hints: BTreeMap<usize, usize>,
    ticks: u64,
}

impl Node {
    /// A node of groups; it runs once it is started.
    #[must_use]
    pub(crate) fn new(id: usize, groups: Rc<Vec<Vec<usize>>>, clocks: Clocks) -> Self {
        Self {
            id,
            life: 0,
            up: false,
            clocks,
            disk: Disk::default(),
            seats: BTreeMap::new(),
            groups,
            jobs: BTreeMap::new(),
            checks: BTreeMap::new(),
            next: 0,
            broker: Holder::new(0, Settings::default(), Some(id)),
            rules: Rules::default(),
            hints: BTreeMap::new(),
            ticks: 0,
        }
    }

    /// Starts from what is on its disk.
    pub(crate) fn start(&mut self, ctx: &mut Ctx) {
        self.life += 1;
        self.up = true;
        let now = self.boot(ctx);
        self.broker = Holder::new(ctx.chance.session(), Settings::default(), Some(self.id));
        self.rules = Rules::default();
        ctx.watch.born(self.id, self.life);
        for (group, peers) in self.groups.iter().enumerate() {
            if !peers.contains(&self.id) {
                continue;
            }
            let log = self.disk.read(group);
            let mut machine = Machine::new(group, ctx.plan.bounds);
            if let Some(snap) = &log.snap {
                machine.restore(snap, now);
            }
            let mut replica = Replica::new(self.id, peers.clone(), log, now, &mut ctx.chance);
            replica.full = self.disk.full;
            self.seats.insert(group, Seat::new(replica, machine));
        }
        ctx.tell(|| format!("node {} starts, life {}", self.id, self.life));
        let first = ctx.now + ctx.chance.below(TICK);
        ctx.at(first, Event::Tick { node: self.id, life: self.life });
    }

    /// Its process is killed, and with it what wasn't on disk.
    pub(crate) fn crash(&mut self, torn: bool, ctx: &mut Ctx) {
        self.up = false;
        self.seats.clear();
        let lost: Vec<_> = self.returns().collect();
        lost.into_iter().for_each(|id| ctx.watch.lost_return(id));
        self.jobs.clear();
        for check in std::mem::take(&mut self.checks).into_values() {
            ctx.watch.lost_return(check.id);
        }
        self.hints.clear();
        if self.disk.crash(torn, &mut ctx.chance) {
            ctx.watch.reached.note(State::TornTail);
        }
        ctx.watch.born(self.id, self.life + 1);
        ctx.tell(|| format!("node {} is killed", self.id));
    }

    /// Its boot-time.
    #[must_use]
    pub(crate) fn boot(&self, ctx: &Ctx) -> BootTime {
        self.clocks.boot(ctx.now)
    }

    /// The numbers that a key has by the rules it knows.
    #[must_use]
    pub(crate) fn spec(&self, key: Key, plan: &Plan) -> LimitSpec {
        spec(key, &self.rules, plan)
    }

    /// Time passes.
    pub(crate) fn tick(&mut self, ctx: &mut Ctx) {
        ctx.at(ctx.now + TICK, Event::Tick { node: self.id, life: self.life });
        self.ticks += 1;
        let now = self.boot(ctx);
        let groups: Vec<usize> = self.seats.keys().copied().collect();
        for group in groups {
            let Some(seat) = self.seats.get_mut(&group) else { continue };
            let out = seat.replica.tick(now, &mut ctx.chance);
            self.absorb(group, out, ctx);
            if self.ticks.is_multiple_of(40) {
                self.tick_shard(group, ctx);
            }
        }
    }

    /// A message of a replica comes.
    pub(crate) fn log(&mut self, group: usize, from: usize, speech: crate::log::Speech, ctx: &mut Ctx) {
        let now = self.boot(ctx);
        let Some(seat) = self.seats.get_mut(&group) else { return };
        if let crate::log::Speech::Append { entries, .. } = &speech {
            entries.iter().for_each(|entry| seat.machine.received(entry, now));
        }
        let led = seat.replica.is_leader();
        let out = seat.replica.handle(from, speech, now, &mut ctx.chance);
        if let Some(leader) = seat.replica.leader() {
            self.hints.insert(group, leader);
        }
        if seat.replica.is_leader() && !led {
            let term = seat.replica.term();
            ctx.watch.leads(group, term, self.id, ctx.now);
            ctx.tell(|| format!("node {} leads group {group} in term {term}", self.id));
        }
        self.absorb(group, out, ctx);
    }

    /// A sync is done.
    pub(crate) fn synced(&mut self, ctx: &mut Ctx) {
        for (group, then) in self.disk.synced() {
            self.say(group, then, ctx);
        }
        self.sync(ctx);
    }

    fn sync(&mut self, ctx: &mut Ctx) {
        if self.disk.begin_sync() {
            let at = ctx.now + SYNC + ctx.chance.below(SYNC) + self.disk.slow;
            ctx.at(at, Event::Synced { node: self.id, life: self.life });
        }
    }

    fn say(&mut self, group: usize, said: Vec<(usize, crate::log::Speech)>, ctx: &mut Ctx) {
        for (to, speech) in said {
            if to == self.id {
                self.log(group, to, speech, ctx);
            } else {
                ctx.send(Place::Node(self.id), Place::Node(to), Message::Log { group, speech });
            }
        }
    }

    /// Does what a replica wants done, and applies what is committed.
    pub(super) fn absorb(&mut self, group: usize, out: Out, ctx: &mut Ctx) {
        let now = self.boot(ctx);
        if let (Some(snap), Some(seat)) = (&out.restored, self.seats.get_mut(&group)) {
            seat.machine.restore(snap, now);
            ctx.watch.reached.note(State::SnapshotInstalled);
            ctx.tell(|| {
                format!("node {} starts group {group} from a snapshot at entry {}", self.id, snap.index)
            });
            if let Content::Control(_) = snap.content {
                self.adopt(ctx);
            }
        }
        for (write, then) in out.writes {
            self.disk.write(group, write, then);
        }
        self.sync(ctx);
        self.say(group, out.said, ctx);
        self.apply(group, ctx);
        self.pump(group, ctx);
    }

    fn apply(&mut self, group: usize, ctx: &mut Ctx) {
        let boot = self.boot(ctx);
        loop {
            let Some(seat) = self.seats.get_mut(&group) else { return };
            let Some(entry) = seat.replica.next_to_apply() else { return };
            let replies = seat.machine.apply(&entry, boot);
            let applied = Applied {
                group,
                entry: &entry,
                replies: &replies,
                machine: &seat.machine,
                node: self.id,
                life: self.life,
            };
            ctx.watch.applied(&applied, ctx.now);
            ctx.mark(entry.index ^ entry.term.rotate_left(20) ^ entry.stamp.0.rotate_left(7));
            self.answer_entry(group, &entry, replies, ctx);
            if group == 0 {
                self.adopt(ctx);
            }
            self.rest(group, ctx);
        }
    }

    /// Answers whoever waits for an entry.
    fn answer_entry(&mut self, group: usize, entry: &Rc<Entry>, replies: Replies, ctx: &mut Ctx) {
        let Some(seat) = self.seats.get_mut(&group) else { return };
        let Some(flying) = seat.flying.take_if(|flying| flying.index <= entry.index) else { return };
        if flying.index != entry.index || flying.term != entry.term {
            return;
        }
        ctx.watch.acked(group, entry.index, entry.term);
        let outcomes: Vec<Outcome> = match replies {
            Replies::None => Vec::new(),
            Replies::Shard(replies) => replies.into_iter().map(Outcome::Reply).collect(),
            Replies::Control(reply) => vec![Outcome::Control(reply)],
        };
        for ((back, id), outcome) in flying.backs.into_iter().zip(outcomes) {
            self.answer(group, back, id, outcome, ctx);
        }
    }

    /// Takes a snapshot when it is time.
    fn rest(&mut self, group: usize, ctx: &mut Ctx) {
        let Some(seat) = self.seats.get_mut(&group) else { return };
        seat.since_snapshot += 1;
        if seat.since_snapshot < ctx.plan.snapshot_every || self.disk.full {
            return;
        }
        seat.since_snapshot = 0;
        let snap = seat.machine.snapshot(seat.replica.applied(), seat.replica.applied_term());
        let out = seat.replica.rest_on(Rc::new(snap), KEPT);
        for (write, then) in out.writes {
            self.disk.write(group, write, then);
        }
        self.sync(ctx);
    }

    /// Goes by the rules that its replica of the control state has.
    fn adopt(&mut self, ctx: &mut Ctx) {
        let Some(control) = self.seats.get(&0).and_then(|seat| seat.machine.control()) else { return };
        let text = control.rules().values().next().and_then(|rules| rules.text.parse().ok());
        let rules =
            Rules { version: control.rules_version(), since: control.rules_since(), set: text.unwrap_or(0) };
        if rules == self.rules {
            return;
        }
        self.rules = rules;
        ctx.watch.adopted(Place::Node(self.id), self.life, rules.version, ctx.now);
        let now = self.boot(ctx);
        let plan = Rc::clone(&ctx.plan);
        self.broker.rules_changed(|key| Rc::new(spec(key, &rules, &plan)), now);
        self.poll_broker(Wants::default(), ctx);
    }

    /// Lets another replica lead.
    pub(crate) fn hand_over(&mut self, group: usize, to: usize, ctx: &mut Ctx) {
        let Some(seat) = self.seats.get_mut(&group) else { return };
        let out = seat.replica.hand_over(to);
        self.absorb(group, out, ctx);
    }

    /// Its disk is full, or has room again.
    pub(crate) fn fill(&mut self, full: bool) {
        self.disk.full = full;
        self.seats.values_mut().for_each(|seat| seat.replica.full = full);
    }

    /// The node's own idea of who leads a group.
    fn leader(&self, group: usize) -> Option<usize> {
        let own = self.seats.get(&group).and_then(|seat| seat.replica.leader());
        own.or_else(|| self.hints.get(&group).copied())
    }
}

/// The numbers of a key by some rules. Keys that nobody planned are a flood's.
#[must_use]
pub(crate) fn spec(key: Key, rules: &Rules, plan: &Plan) -> LimitSpec {
    let known = plan.keys.iter().find(|known| known.key == key);
    let (tenant, limit) = match known {
        Some(known) => (known.tenant, known.limits[rules.set].clone()),
        None => (FLOODED, plan.keys[0].limits[0].clone()),
    };
    LimitSpec { tenant, version: rules.version, since: rules.since, limit }
}

/// Which group has a key.
#[must_use]
pub(crate) fn group_of(key: Key, plan: &Plan) -> usize {
    usize::try_from(plan.shards.of(key).0).unwrap_or(0) + 1
}

const _: () = assert!(TICK < BEAT.0, "leaders beat in time");
