//! An owner, its edges (or a broker and its children), what is under way between them, and one step at a time.
//!
//! Everything that isn't a choice happens at once: asks are sent as soon as they are there. How long they take, whether
//! they arrive, how often and in which order is a choice, and so is everything that anybody does.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::{
    Answer, Checked, EdgeId, Event, LeaseAsk, Leased, Lent, Paid, Settings, Spend, Wallet, edge_lifetime,
};
use leasehold_limit::Limit;
use leasehold_model::{BootTime, Key, Nanos, RequestId, Stamp};

use super::bugs::Bug;
use super::meter::Meter;
use super::owner::Owner;

pub(super) const KEY: Key = Key { high: 0, low: 1 };
/// Discrete time.
pub(super) const STEP: Nanos = Nanos::from_millis(100);
/// What every clock shows at first: one step into a window of three.
const START: u64 = 1_000_000_000_000;

/// What a world is made of, and how much of everything may happen in it.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) limit: Limit,
    /// For each node whom it asks: the owner, or another node (then it is that one's child).
    pub(super) parents: Vec<Option<usize>>,
    pub(super) lifetime: Nanos,
    pub(super) idle: Nanos,
    pub(super) left: Left,
    /// By how much each node's clock is fast, or slow, in thousandths.
    pub(super) drifts: Vec<i64>,
    /// By how much the owner's line is fast.
    pub(super) line_drift: i64,
    pub(super) bug: Option<Bug>,
}

/// How much of everything may still happen.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(super) struct Left {
    /// Two requests at once at one node.
    pub(super) bursts: u8,
    pub(super) requests: u8,
    pub(super) directs: u8,
    pub(super) ticks: u8,
    pub(super) losses: u8,
    pub(super) repeats: u8,
    pub(super) crashes: u8,
    pub(super) failovers: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Burst(usize),
    Request(usize),
    Direct,
    Tick,
    Deliver(usize),
    Lose(usize),
    Repeat(usize),
    Crash(usize),
    FailOver,
}

#[derive(Clone, Debug, Hash)]
struct Node {
    wallet: Wallet<()>,
    parent: Option<usize>,
    life: u128,
    /// Units that it said it handed back, kept by a planted bug until then.
    kept: Vec<(u64, BootTime)>,
    returned: u64,
}

#[derive(Clone, Debug, Hash)]
enum Body {
    Ask(LeaseAsk),
    Leased(Leased),
}

#[derive(Clone, Debug, Hash)]
struct Message {
    /// Whose ask it is, or belongs to; `life` is which of its lives.
    node: usize,
    life: u128,
    id: RequestId,
    body: Body,
    copies: u8,
    sent: BootTime,
}

#[derive(Clone, Debug)]
pub(super) struct World<'a> {
    setup: &'a Setup,
    now: u64,
    owner: Owner,
    nodes: Vec<Node>,
    wires: Vec<Message>,
    meter: Meter,
    /// Answers to children by the broker's life: given again, one moves nothing.
    lent: BTreeSet<(u128, u128, u64)>,
    left: Left,
}

impl Node {
    fn new(setup: &Setup, place: usize, life: u128) -> Self {
        let settings = Settings {
            lifetime: setup.lifetime,
            idle: setup.idle,
            round_trip: Nanos::from_millis(1),
            guard: Nanos::from_millis(1),
            ..Settings::default()
        };
        let who = (life << 64) + (u128::try_from(place).expect("few") << 32) + (life << 16);
        let wallet = Wallet::new(EdgeId(who), who, settings);
        Self { wallet, parent: setup.parents[place], life, kept: Vec::new(), returned: 0 }
    }

    /// A planted bug: units that it has handed back.
    fn spend_kept(&mut self, now: BootTime) -> bool {
        self.kept.retain(|&(units, until)| units > 0 && now < until);
        self.kept.first_mut().map(|(units, _)| *units -= 1).is_some()
    }
}

impl<'a> World<'a> {
    pub(super) fn new(setup: &'a Setup) -> Self {
        Self {
            setup,
            now: START,
            owner: Owner::new(&setup.limit),
            nodes: (0..setup.parents.len()).map(|place| Node::new(setup, place, 1)).collect(),
            wires: Vec::new(),
            meter: Meter::new(&setup.limit),
            lent: BTreeSet::new(),
            left: setup.left,
        }
    }

    /// Whether it went wrong, and how.
    pub(super) fn wrong(&self) -> Option<String> {
        if self.meter.overshoot > 0 {
            return Some(format!("{} units beyond the limit", self.meter.overshoot));
        }
        (self.owner.violations() > 0).then(|| "the ledger lost count".to_owned())
    }

    /// Equal for worlds that go on alike.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        let Self { now, owner, nodes, wires, meter, left, .. } = self;
        (now, nodes, wires, left).hash(&mut hash);
        meter.hash(&mut hash);
        // Of the answers that the owner and brokers remember, only those matter that may still be asked for.
        let asks = wires.iter().filter(|message| matches!(message.body, Body::Ask(_)));
        owner.hash(asks.map(|message| message.id), &mut hash);
        hash.finish()
    }

    /// All that may happen next.
    pub(super) fn choices(&self) -> Vec<Action> {
        let Left { bursts, requests, directs, ticks, losses, repeats, crashes, failovers } = self.left;
        let nodes = || 0..self.nodes.len();
        let wires = || 0..self.wires.len();
        let mut choices = Vec::new();
        choices.extend(wires().map(Action::Deliver));
        choices.extend(nodes().filter(|_| bursts > 0).map(Action::Burst));
        choices.extend(nodes().filter(|_| requests > 0).map(Action::Request));
        // One that is refused changes nothing.
        let direct = directs > 0 && self.owner.has_one(&self.setup.limit, KEY, self.stamp(), self.setup.bug);
        choices.extend(direct.then_some(Action::Direct));
        choices.extend((ticks > 0).then_some(Action::Tick));
        choices.extend(wires().filter(|_| losses > 0).map(Action::Lose));
        choices.extend(
            wires().filter(|&place| repeats > 0 && self.wires[place].copies == 1).map(Action::Repeat),
        );
        choices.extend(nodes().filter(|_| crashes > 0).map(Action::Crash));
        choices.extend((failovers > 0).then_some(Action::FailOver));
        choices
    }

    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Burst(node) => {
                self.left.bursts -= 1;
                self.request(node);
                self.request(node);
                self.pump(node);
            }
            Action::Request(node) => {
                self.left.requests -= 1;
                self.request(node);
                self.pump(node);
            }
            Action::Direct => {
                self.left.directs -= 1;
                let now = self.stamp();
                if self.owner.direct(&self.setup.limit, KEY, now, self.setup.bug) {
                    self.spent(1);
                }
            }
            Action::Tick => {
                self.left.ticks -= 1;
                self.now += STEP.0;
                for node in 0..self.nodes.len() {
                    let now = self.boot(node);
                    self.nodes[node].wallet.handle_timeout(now);
                    self.pump(node);
                }
            }
            Action::Deliver(place) => {
                let message = self.take(place);
                self.deliver(message);
            }
            Action::Lose(place) => {
                self.left.losses -= 1;
                self.take(place);
            }
            Action::Repeat(place) => {
                self.left.repeats -= 1;
                self.wires[place].copies += 1;
            }
            Action::Crash(node) => {
                self.left.crashes -= 1;
                self.nodes[node] = Node::new(self.setup, node, self.nodes[node].life + 1);
            }
            Action::FailOver => {
                self.left.failovers -= 1;
                self.owner.fail_over(STEP, self.setup.bug);
            }
        }
    }

    /// What a node's clock shows.
    fn boot(&self, node: usize) -> BootTime {
        BootTime(self.shown(self.setup.drifts[node]))
    }

    /// What the owner's clock shows.
    fn stamp(&self) -> Stamp {
        Stamp(self.shown(self.setup.line_drift))
    }

    fn shown(&self, drift: i64) -> u64 {
        let elapsed = i64::try_from(self.now - START).expect("a few steps");
        self.now.checked_add_signed(elapsed * drift / 1_000).expect("far from either end")
    }

    fn spent(&mut self, units: u64) {
        let line = self.owner.line(self.stamp());
        self.meter.spend(units, Stamp(self.now), line);
    }

    /// One unit, as a shell asks for it.
    fn request(&mut self, node: usize) {
        let now = self.boot(node);
        let wallet = &mut self.nodes[node].wallet;
        let spend = wallet.cell(KEY).map(|cell| cell.spend(1, now));
        if let Some(Spend::Taken { low, .. }) = spend {
            if low {
                wallet.handle_low(KEY, now);
            }
            return self.spent(1);
        }
        if self.nodes[node].spend_kept(now) {
            return self.spent(1);
        }
        let wallet = &mut self.nodes[node].wallet;
        if wallet.cell(KEY).is_some_and(|cell| cell.refuse(1, now).is_some()) {
            return;
        }
        match wallet.handle_check(KEY, &(), 1, BootTime(u64::MAX), now) {
            Checked::Answered(Answer::Taken { .. }) => self.spent(1),
            Checked::Answered(Answer::Denied { .. } | Answer::Undecided)
            | Checked::Waiting(_)
            | Checked::NoRoom => {}
        }
    }

    /// Sends what a node has to send, and counts what requests that waited took out of leases.
    fn pump(&mut self, node: usize) {
        self.answers(node, 0);
        let now = self.boot(node);
        while let Some(out) = self.nodes[node].wallet.poll_ask(now) {
            let Node { life, returned, kept, .. } = &mut self.nodes[node];
            if self.setup.bug == Some(Bug::KeepAfterReturn) {
                let told = out.ask.usage.iter().map(|usage| usage.returned_total).sum::<u64>();
                kept.push((told.saturating_sub(*returned), BootTime(now.0 + STEP.0)));
                *returned = told.max(*returned);
            }
            let life = *life;
            self.send(Message { node, life, id: out.id, body: Body::Ask(out.ask), copies: 1, sent: now });
        }
    }

    /// What a node's wallet answered. `consumed`: units that the owner consumed for it and that were counted then.
    fn answers(&mut self, node: usize, consumed: u64) {
        let (mut paid, mut from_held) = (0, 0);
        while let Some(event) = self.nodes[node].wallet.poll_event() {
            match event {
                Event::Answered { answer: Answer::Taken { paid: Paid::Owner, .. }, .. } => paid += 1,
                Event::Answered { answer: Answer::Taken { paid: Paid::Lease, .. }, .. } => from_held += 1,
                Event::Lent { id, leased: Some(leased) } => {
                    paid += leased.sync;
                    self.lent.insert((self.nodes[node].life, id.session, id.seq));
                    self.reply(id, leased);
                }
                Event::Answered { answer: Answer::Denied { .. } | Answer::Undecided, .. }
                | Event::Lent { leased: None, .. }
                | Event::Slot { .. } => {}
            }
        }
        // A broker may add of its own to what the owner consumed for a child.
        let units = from_held + paid.saturating_sub(consumed);
        if units > 0 {
            self.spent(units);
        }
    }

    /// An answer to a child: its session tells whose.
    fn reply(&mut self, id: RequestId, leased: Leased) {
        let place = usize::try_from(id.session >> 32 & 0xffff).expect("few");
        let message = Message {
            node: place,
            life: id.session >> 64,
            id,
            body: Body::Leased(leased),
            copies: 1,
            sent: self.boot(place),
        };
        self.send(message);
    }

    fn deliver(&mut self, message: Message) {
        let Message { node, life, id, body, sent, .. } = message;
        match body {
            Body::Ask(ask) => match self.nodes[node].parent {
                None => {
                    let now = self.stamp();
                    let (leased, consumed) = self.owner.ask(&self.setup.limit, id, &ask, now, self.setup.bug);
                    if consumed > 0 {
                        self.spent(consumed);
                    }
                    self.send(Message { node, life, id, body: Body::Leased(leased), copies: 1, sent });
                }
                Some(broker) => self.deliver_to_broker(broker, id, &ask),
            },
            Body::Leased(leased) if self.nodes[node].life == life => {
                self.deliver_lease(node, id, leased, sent)
            }
            Body::Leased(_) => {}
        }
    }

    fn deliver_to_broker(&mut self, broker: usize, id: RequestId, ask: &LeaseAsk) {
        let now = self.boot(broker);
        let lent = self.nodes[broker].wallet.handle_child_ask(id, ask, &(), BootTime(u64::MAX), now);
        if let Lent::Answered(leased) = lent {
            // An answer that was remembered moved nothing.
            let fresh = self.lent.insert((self.nodes[broker].life, id.session, id.seq));
            if fresh && leased.sync > 0 {
                self.spent(leased.sync);
            }
            self.reply(id, leased);
        }
        self.pump(broker);
    }

    fn deliver_lease(&mut self, node: usize, id: RequestId, mut leased: Leased, sent: BootTime) {
        let now = self.boot(node);
        if self.setup.bug == Some(Bug::DeadlineFromReceipt) {
            leased.lifetime = Nanos(leased.lifetime.0 + now.since(sent).0 + now.since(sent).0 / 100);
            debug_assert!(edge_lifetime(leased.lifetime) >= now.since(sent), "counted from now");
        }
        if self.nodes[node].wallet.handle_leased(id, &leased, now) {
            self.answers(node, leased.sync);
        }
        self.pump(node);
    }

    /// Puts a message among those under way, in an order that doesn't depend on history.
    fn send(&mut self, message: Message) {
        let key = |message: &Message| {
            (
                matches!(message.body, Body::Leased(_)),
                message.node,
                message.life,
                message.id.session,
                message.id.seq,
            )
        };
        let place = self.wires.partition_point(|other| key(other) < key(&message));
        match self.wires.get_mut(place).filter(|other| key(other) == key(&message)) {
            Some(other) => other.copies = (other.copies + 1).min(2),
            None => self.wires.insert(place, message),
        }
    }

    fn take(&mut self, place: usize) -> Message {
        let message = self.wires[place].clone();
        self.wires[place].copies -= 1;
        if self.wires[place].copies == 0 {
            self.wires.remove(place);
        }
        message
    }
}
