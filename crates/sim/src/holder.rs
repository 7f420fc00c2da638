//! Somebody with a wallet: an edge, or a node that is its region's broker. Does what the shell of a wallet does.
//!
//! Invariant: every unit is reported once to who watches, when it is consumed: out of a lease here, or for a child. What the
//! owner consumed for those who wait is known from the owner's log.

use std::collections::BTreeMap;
use std::rc::Rc;

use leasehold_lease::{
    Answer, Checked, EdgeId, Event, Holding, LeaseAsk, Leased, Lent, Outgoing, Settings, Spend, Ticket,
    Wallet,
};
use leasehold_model::{BootTime, Key, Nanos, RequestId};
use leasehold_shard::{LimitSpec, Settled};

use crate::clocks::Time;
use crate::ctx::Ctx;

/// A request waits for its owner no longer than this: where all replicas are 120 ms from each other and units are short, it may
/// take three asks of some 300 ms each.
const BUDGET: Nanos = Nanos::from_secs(4);
/// And a child's ask no longer than this, which it sends again.
const CHILD_BUDGET: Nanos = Nanos::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Holder {
    wallet: Wallet<Rc<LimitSpec>>,
    waiting: BTreeMap<Ticket, (Key, u64)>,
    children: BTreeMap<RequestId, (Key, usize)>,
    given: BTreeMap<RequestId, Leased>,
    /// Keys by the asks under way, as far back as an answer may come.
    asked: BTreeMap<RequestId, Key>,
    /// Units that requests which waited were given.
    passed: u64,
    /// The node that lends on by it, if it does.
    broker_of: Option<usize>,
    /// When the shell's alarm rings, in true time.
    pub(crate) wake_at: Option<Time>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It passed.
    Passed,
    /// It was refused.
    Refused,
    /// Nobody could say.
    Undecided,
    /// It waits.
    Waits,
    /// It has to ask the owner itself, which is what clients do here.
    Elsewhere,
}

/// What a holder wants from its shell.
#[derive(Debug, Default)]
pub(crate) struct Wants {
    /// Asks to send.
    pub(crate) asks: Vec<Outgoing<Rc<LimitSpec>>>,
    /// Answers to children, by edge.
    pub(crate) answers: Vec<(usize, RequestId, Leased)>,
    /// Requests that waited.
    pub(crate) fates: Vec<(Key, Fate)>,
}

impl Holder {
    /// A wallet of a new life.
    #[must_use]
    pub(crate) fn new(session: u128, settings: Settings, broker_of: Option<usize>) -> Self {
        Self {
            wallet: Wallet::new(EdgeId(session), session, settings),
            waiting: BTreeMap::new(),
            children: BTreeMap::new(),
            given: BTreeMap::new(),
            asked: BTreeMap::new(),
            passed: 0,
            broker_of,
            wake_at: None,
        }
    }

    /// What it won't ask again.
    #[must_use]
    pub(crate) fn settled(&self) -> Settled {
        let (session, below) = self.wallet.settled();
        Settled { session, below }
    }

    /// Units held of a key whose leases end by `then`, of those that it could spend at `now`.
    #[must_use]
    pub(crate) fn ending(&self, keys: &[Key], now: BootTime, then: BootTime) -> bool {
        let ends = |holding: Holding| holding.deadline > now && holding.deadline <= then;
        let rest = |holding: &Holding| holding.granted > holding.spent + holding.returned + holding.lent;
        keys.iter().any(|&key| self.wallet.holdings(key).filter(rest).any(ends))
    }

    /// A request for units of a key.
    pub(crate) fn request(
        &mut self,
        spec: &Rc<LimitSpec>,
        key: Key,
        cost: u64,
        now: BootTime,
        ctx: &mut Ctx,
    ) -> Fate {
        let before = self.holdings(key);
        let fate = self.decide(spec, key, cost, now);
        self.report(key, &before, ctx);
        fate
    }

    fn decide(&mut self, spec: &Rc<LimitSpec>, key: Key, cost: u64, now: BootTime) -> Fate {
        if let Some(cell) = self.wallet.cell(key) {
            if let Spend::Taken { low, .. } = cell.spend(cost, now) {
                if low {
                    self.wallet.handle_low(key, now);
                }
                return Fate::Passed;
            }
            if cell.refuse(cost, now).is_some() {
                return Fate::Refused;
            }
        }
        let deadline = BootTime(now.0 + BUDGET.0);
        match self.wallet.handle_check(key, spec, cost, deadline, now) {
            Checked::Answered(answer) => self.settle(cost, &answer),
            Checked::Waiting(ticket) => {
                self.waiting.insert(ticket, (key, cost));
                Fate::Waits
            }
            Checked::NoRoom => Fate::Elsewhere,
        }
    }

    fn settle(&mut self, cost: u64, answer: &Answer) -> Fate {
        match answer {
            Answer::Taken { .. } => {
                self.passed += cost;
                Fate::Passed
            }
            Answer::Denied { .. } => Fate::Refused,
            Answer::Undecided => Fate::Undecided,
        }
    }

    /// The owner's answer, or a broker's.
    pub(crate) fn leased(
        &mut self,
        id: RequestId,
        leased: Option<&Leased>,
        now: BootTime,
        wants: &mut Wants,
        ctx: &mut Ctx,
    ) {
        let Some(key) = self.asked.get(&id).copied() else { return };
        let Some(leased) = leased else { return self.wallet.handle_refused(id, now) };
        let before = self.holdings(key);
        let lost = self.wallet.totals().sync_lost;
        let passed = self.passed;
        let heeded = self.wallet.handle_leased(id, leased, now);
        let consumed = self.act(wants, ctx);
        let lost = self.wallet.totals().sync_lost - lost;
        let from_owner = if heeded { leased.sync - lost.min(leased.sync) } else { 0 };
        if self.broker_of.is_some() {
            // What the owner consumed for children is known from its log; the rest came out of what is held here.
            ctx.watch.spent_by_broker(key, consumed.saturating_sub(from_owner), ctx.now);
        } else {
            let spent = self.report(key, &before, ctx);
            ctx.watch.delivered(key, from_owner, spent, self.passed - passed, ctx.now);
        }
    }

    /// What a child asks.
    pub(crate) fn child_ask(
        &mut self,
        (edge, id): (usize, RequestId),
        ask: &LeaseAsk,
        spec: &Rc<LimitSpec>,
        now: BootTime,
        wants: &mut Wants,
        ctx: &mut Ctx,
    ) {
        let deadline = BootTime(now.0 + CHILD_BUDGET.0);
        match self.wallet.handle_child_ask(id, ask, spec, deadline, now) {
            Lent::Answered(leased) => {
                let consumed = self.lent(ask.key, id, leased, ctx);
                ctx.watch.spent_by_broker(ask.key, consumed, ctx.now);
                wants.answers.push((edge, id, leased));
            }
            Lent::Waiting => {
                self.children.insert(id, (ask.key, edge));
            }
            Lent::NoRoom => {}
        }
    }

    /// A child has its answers.
    pub(crate) fn child_settled(&mut self, settled: Settled) {
        self.wallet.handle_child_settled(settled.session, settled.below);
        let of = |seq| RequestId { session: settled.session, seq };
        let done: Vec<RequestId> = self.given.range(of(0)..of(settled.below)).map(|(id, _)| *id).collect();
        for id in done {
            self.given.remove(&id);
        }
    }

    /// What was consumed for a child by an answer; nothing for one that it has already.
    fn lent(&mut self, key: Key, id: RequestId, leased: Leased, ctx: &mut Ctx) -> u64 {
        if self.given.insert(id, leased) == Some(leased) {
            return 0;
        }
        if let Some(sub_lease) = leased.lease {
            let parent = self.wallet.parent(key, sub_lease);
            ctx.watch.sub_lent(key, (sub_lease, parent), leased.granted, self.broker_of.unwrap_or(0));
        }
        leased.sync
    }

    /// Other rules hold.
    pub(crate) fn rules_changed(&mut self, spec_of: impl Fn(Key) -> Rc<LimitSpec>, now: BootTime) {
        self.wallet.handle_rules_changed(|key, _| Some(spec_of(key)), now);
    }

    /// All that is under way has to go another way.
    pub(crate) fn all_lost(&mut self, now: BootTime) {
        self.wallet.handle_all_lost(now);
    }

    /// Does what is due.
    pub(crate) fn timeout(&mut self, now: BootTime) {
        self.wallet.handle_timeout(now);
    }

    /// What is to be done now. Call it after anything else.
    pub(crate) fn poll(&mut self, now: BootTime, wants: &mut Wants, ctx: &mut Ctx) {
        let consumed = self.act(wants, ctx);
        debug_assert_eq!(consumed, 0, "children are answered by answers");
        while let Some(outgoing) = self.wallet.poll_ask(now) {
            self.asked.insert(outgoing.id, outgoing.ask.key);
            wants.asks.push(outgoing);
        }
        while self.asked.len() > 4_096 {
            self.asked.pop_first();
        }
    }

    /// When to call again.
    #[must_use]
    pub(crate) fn next_deadline(&self) -> Option<BootTime> {
        self.wallet.next_deadline()
    }

    /// Keys held, and the most that may be.
    #[must_use]
    pub(crate) fn keys(&self) -> (usize, usize) {
        (self.wallet.keys(), Settings::default().keys_max)
    }

    fn act(&mut self, wants: &mut Wants, ctx: &mut Ctx) -> u64 {
        let mut consumed = 0;
        while let Some(event) = self.wallet.poll_event() {
            match event {
                Event::Answered { ticket, answer } => {
                    if let Some((key, cost)) = self.waiting.remove(&ticket) {
                        let fate = self.settle(cost, &answer);
                        wants.fates.push((key, fate));
                    }
                }
                Event::Lent { id, leased } => {
                    let child = self.children.remove(&id);
                    if let (Some((key, edge)), Some(leased)) = (child, leased) {
                        consumed += self.lent(key, id, leased, ctx);
                        wants.answers.push((edge, id, leased));
                    }
                }
                Event::Slot { .. } => {}
            }
        }
        consumed
    }

    fn holdings(&self, key: Key) -> Vec<Holding> {
        self.wallet.holdings(key).collect()
    }

    /// Tells what was spent of which lease since.
    fn report(&self, key: Key, before: &[Holding], ctx: &mut Ctx) -> u64 {
        let mut sum = 0;
        for after in self.wallet.holdings(key) {
            let spent = before.iter().find(|before| before.id == after.id).map_or(0, |before| before.spent);
            if after.spent > spent {
                ctx.watch.spent(key, after.id, after.spent - spent, ctx.now);
                sum += after.spent - spent;
            }
        }
        sum
    }
}
