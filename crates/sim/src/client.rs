//! A client: asks any node for units of one or several counters, and asks again under the same id, wherever, until it is
//! answered or its time is up. Now and then its own caller asks again although it was answered.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use leasehold_model::{Key, RequestId};

use crate::clocks::{MILLI, SECOND, Time};
use crate::ctx::{Ctx, Event, Message, Verdict};
use crate::net::Place;
use crate::node::group_of;
use crate::plan::Class;

/// A try has an answer within this, or somebody else is asked: most callers' patience, and some's.
const PATIENCE: [Time; 4] = [900 * MILLI, 900 * MILLI, 900 * MILLI, 4 * SECOND];
/// While it is calm an answer comes within this.
const CALM_BUDGET: Time = 4 * SECOND;

#[derive(Debug)]
struct Open {
    costs: Rc<[(Key, u64)]>,
    deadline: Time,
    attempt: u32,
    probe: bool,
    begun: Time,
    /// Answered before: asked again all the same.
    again: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Client {
    /// Which.
    pub(crate) id: usize,
    session: u128,
    next: u64,
    open: BTreeMap<RequestId, Open>,
}

impl Client {
    /// A client that hasn't asked for anything yet.
    #[must_use]
    pub(crate) fn new(id: usize, session: u128) -> Self {
        Self { id, session, next: 0, open: BTreeMap::new() }
    }

    /// Thinks of a request, and when it will think of the next.
    pub(crate) fn think(&mut self, ctx: &mut Ctx) {
        let pause = ctx.chance.within(40, 400) * MILLI;
        ctx.at(ctx.now + pause, Event::Think { client: self.id });
        let flood = ctx.plan.has(Class::Flood) && ctx.now < ctx.plan.heal_at && ctx.chance.per_mille(600);
        if flood {
            for _ in 0..ctx.chance.within(1, 8) {
                let key = Key { high: ctx.chance.below(u64::MAX), low: ctx.chance.below(u64::MAX) };
                self.ask(vec![(key, 1)], false, ctx);
            }
            return;
        }
        let keys = ctx.plan.keys.len() - 1;
        let wanted: BTreeSet<usize> = (0..ctx.chance.within(1, 3)).map(|_| ctx.chance.place(keys)).collect();
        let costs = wanted.into_iter().map(|key| (ctx.plan.keys[key].key, ctx.chance.within(1, 3))).collect();
        self.ask(costs, false, ctx);
    }

    /// Asks for a unit of the counter that is probed.
    pub(crate) fn probe(&mut self, ctx: &mut Ctx) {
        let Some(key) = ctx.plan.keys.last().map(|key| key.key) else { return };
        self.ask(vec![(key, 1)], true, ctx);
    }

    fn ask(&mut self, costs: Vec<(Key, u64)>, probe: bool, ctx: &mut Ctx) {
        let id = RequestId { session: self.session, seq: self.next };
        self.next += 1;
        let budget = if ctx.is_calm() { CALM_BUDGET } else { ctx.chance.within(1_000, 14_000) * MILLI };
        let deadline = ctx.now + budget;
        let open = Open { costs: costs.into(), deadline, attempt: 0, probe, begun: ctx.now, again: false };
        self.open.insert(id, open);
        self.attempt(id, ctx);
    }

    fn attempt(&mut self, id: RequestId, ctx: &mut Ctx) {
        let Some(open) = self.open.get_mut(&id) else { return };
        open.attempt += 1;
        let node = ctx.chance.place(ctx.plan.nodes);
        let message = Message::Check { id, costs: Rc::clone(&open.costs) };
        ctx.send(Place::Client(self.id), Place::Node(node), message);
        let patience = if ctx.is_calm() { PATIENCE[0] } else { *ctx.chance.pick(&PATIENCE) };
        ctx.at(ctx.now + patience, Event::Patience { client: self.id, id, attempt: open.attempt });
    }

    /// A try has waited long enough.
    pub(crate) fn patience(&mut self, id: RequestId, attempt: u32, ctx: &mut Ctx) {
        let Some(open) = self.open.get(&id).filter(|open| open.attempt == attempt) else { return };
        if ctx.now < open.deadline {
            return self.attempt(id, ctx);
        }
        let Some(open) = self.open.remove(&id) else { return };
        if !open.again {
            ctx.watch.gave_up(id, groups(&open.costs, ctx));
            ctx.tell(|| format!("client {} gives {} up", self.id, id.seq));
            self.note(&open, false, ctx);
        }
    }

    /// An answer comes.
    pub(crate) fn answered(&mut self, id: RequestId, verdict: Verdict, ctx: &mut Ctx) {
        let Some(open) = self.open.get(&id) else { return };
        match verdict {
            Verdict::Allowed | Verdict::OverLimit => {}
            // It asks again when its patience is over.
            Verdict::Unknown => return,
            Verdict::Full => {
                self.open.remove(&id);
                return;
            }
        }
        let groups = groups(&open.costs, ctx);
        ctx.watch.answered(id, verdict, groups, ctx.now);
        let Some(open) = self.open.remove(&id) else { return };
        if open.again {
            return;
        }
        if open.probe && ctx.is_calm() {
            ctx.watch.heals.probed(verdict == Verdict::Allowed, open.begun);
        }
        self.note(&open, true, ctx);
        if ctx.chance.per_mille(100) && ctx.now < ctx.plan.quiet_at {
            let deadline = ctx.now + 4 * SECOND;
            let again = Open { deadline, attempt: open.attempt + 1, again: true, ..open };
            let attempt = again.attempt;
            self.open.insert(id, again);
            let pause = ctx.chance.within(1, 3_000) * MILLI;
            ctx.at(ctx.now + pause, Event::Patience { client: self.id, id, attempt });
        }
    }

    fn note(&self, open: &Open, decided: bool, ctx: &mut Ctx) {
        if open.begun >= ctx.plan.calm_at {
            ctx.watch.heals.answered(decided);
        }
    }
}

fn groups(costs: &[(Key, u64)], ctx: &Ctx) -> BTreeSet<usize> {
    costs.iter().map(|(key, _)| group_of(*key, &ctx.plan)).collect()
}
