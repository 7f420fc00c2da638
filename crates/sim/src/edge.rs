//! An edge: requests come to it, it decides them from what it holds, and asks a node of its region for more.
//!
//! Invariant: it counts its leases by its own boot-time, from when it asked. Whoever kills it loses what it held.

use std::rc::Rc;

use leasehold_lease::{Leased, Settings};
use leasehold_model::{BootTime, Key, RequestId};

use crate::clocks::{Clocks, SECOND, Time};
use crate::ctx::{Ctx, Event, Message, Rules};
use crate::holder::{Fate, Holder, Wants};
use crate::net::Place;
use crate::node::spec;

/// A node that says nothing for so long is left for another.
const PATIENCE: Time = 3 * SECOND / 2;

/// See the module.
#[derive(Debug)]
pub(crate) struct Edge {
    /// Which.
    pub(crate) id: usize,
    /// Counted up at each start.
    pub(crate) life: u64,
    /// Whether its process runs.
    pub(crate) up: bool,
    /// Its machine's clocks.
    pub(crate) clocks: Clocks,
    holder: Holder,
    rules: Rules,
    node: usize,
    /// When it last heard of its node, or began to ask it.
    heard: Time,
    asking: bool,
}

impl Edge {
    /// An edge that runs once it is started.
    #[must_use]
    pub(crate) fn new(id: usize, clocks: Clocks) -> Self {
        let holder = Holder::new(0, Settings::default(), None);
        let rules = Rules::default();
        Self { id, life: 0, up: false, clocks, holder, rules, node: 0, heard: 0, asking: false }
    }

    /// Starts anew, with nothing.
    pub(crate) fn start(&mut self, ctx: &mut Ctx) {
        self.life += 1;
        self.up = true;
        self.holder = Holder::new(ctx.chance.session(), Settings::default(), None);
        self.rules = Rules::default();
        self.node = self.nearest(ctx);
        (self.heard, self.asking) = (ctx.now, false);
        ctx.tell(|| format!("edge {} starts, life {}", self.id, self.life));
    }

    /// Is killed.
    pub(crate) fn die(&mut self, ctx: &mut Ctx) {
        self.up = false;
        ctx.tell(|| format!("edge {} is killed", self.id));
    }

    /// Its boot-time.
    #[must_use]
    pub(crate) fn boot(&self, now: Time) -> BootTime {
        self.clocks.boot(now)
    }

    /// Whether it holds units that it could spend at one moment and not at the other.
    #[must_use]
    pub(crate) fn holds_past(&self, keys: &[Key], now: BootTime, then: BootTime) -> bool {
        self.holder.ending(keys, now, then)
    }

    fn nearest(&self, ctx: &mut Ctx) -> usize {
        let here = ctx.net.region(Place::Edge(self.id));
        let near: Vec<usize> =
            (0..ctx.plan.nodes).filter(|node| ctx.net.region(Place::Node(*node)) == here).collect();
        if near.is_empty() { ctx.chance.place(ctx.plan.nodes) } else { *ctx.chance.pick(&near) }
    }

    /// A request comes.
    pub(crate) fn arrive(&mut self, key: usize, cost: u64, ctx: &mut Ctx) {
        let (key, now) = (ctx.plan.keys[key].key, self.boot(ctx.now));
        let spec = Rc::new(spec(key, &self.rules, &ctx.plan));
        let fate = self.holder.request(&spec, key, cost, now, ctx);
        note(fate, ctx);
        self.go_on(Wants::default(), ctx);
    }

    /// An answer comes.
    pub(crate) fn leased(&mut self, from: usize, id: RequestId, leased: Option<&Leased>, ctx: &mut Ctx) {
        if from == self.node {
            (self.heard, self.asking) = (ctx.now, false);
        }
        let now = self.boot(ctx.now);
        let mut wants = Wants::default();
        self.holder.leased(id, leased, now, &mut wants, ctx);
        self.go_on(wants, ctx);
    }

    /// The wallet wanted to be called.
    pub(crate) fn wake(&mut self, ctx: &mut Ctx) {
        if self.holder.wake_at.is_none_or(|at| at > ctx.now) {
            return;
        }
        self.holder.wake_at = None;
        let now = self.boot(ctx.now);
        self.holder.timeout(now);
        self.go_on(Wants::default(), ctx);
    }

    /// Asks for the rules; a node that is silent is left.
    pub(crate) fn poll(&mut self, ctx: &mut Ctx) {
        let (held, most) = self.holder.keys();
        ctx.watch.bounded("keys of a wallet", held, most, ctx.now);
        if self.asking && ctx.now - self.heard >= PATIENCE {
            self.node = ctx.chance.place(ctx.plan.nodes);
            (self.heard, self.asking) = (ctx.now, false);
            ctx.tell(|| format!("edge {} turns to node {}", self.id, self.node));
            let now = self.boot(ctx.now);
            self.holder.all_lost(now);
            self.go_on(Wants::default(), ctx);
        }
        ctx.send(Place::Edge(self.id), Place::Node(self.node), Message::WantRules);
    }

    /// The rules come.
    pub(crate) fn adopt(&mut self, rules: Rules, ctx: &mut Ctx) {
        if rules.version <= self.rules.version {
            return;
        }
        self.rules = rules;
        ctx.watch.adopted(Place::Edge(self.id), self.life, rules.version, ctx.now);
        let (now, plan) = (self.boot(ctx.now), Rc::clone(&ctx.plan));
        self.holder.rules_changed(|key| Rc::new(spec(key, &rules, &plan)), now);
        self.go_on(Wants::default(), ctx);
    }

    fn go_on(&mut self, mut wants: Wants, ctx: &mut Ctx) {
        let now = self.boot(ctx.now);
        self.holder.poll(now, &mut wants, ctx);
        wants.fates.iter().for_each(|(_, fate)| note(*fate, ctx));
        for outgoing in wants.asks {
            if !self.asking {
                (self.heard, self.asking) = (ctx.now, true);
            }
            let message = Message::Ask {
                id: outgoing.id,
                ask: Rc::new(outgoing.ask),
                spec: outgoing.limit,
                settled: self.holder.settled(),
            };
            ctx.send(Place::Edge(self.id), Place::Node(self.node), message);
        }
        self.set_alarm(ctx);
    }

    fn set_alarm(&mut self, ctx: &mut Ctx) {
        let Some(due) = self.holder.next_deadline() else { return };
        let wait = due.0.saturating_sub(self.boot(ctx.now).0) + 1;
        let at = ctx.now + wait + wait / 900;
        if self.holder.wake_at.is_some_and(|known| known <= at) {
            return;
        }
        self.holder.wake_at = Some(at);
        ctx.at(at, Event::Wake { place: Place::Edge(self.id), life: self.life });
    }
}

fn note(fate: Fate, ctx: &mut Ctx) {
    match fate {
        Fate::Passed | Fate::Refused | Fate::Undecided if ctx.is_calm() => {
            ctx.watch.heals.answered(fate != Fate::Undecided);
            if fate == Fate::Undecided {
                ctx.tell(|| "an edge has no answer for a request although it is calm".to_owned());
            }
        }
        Fate::Passed | Fate::Refused | Fate::Undecided | Fate::Waits | Fate::Elsewhere => {}
    }
}
