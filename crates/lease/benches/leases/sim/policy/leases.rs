//! The protocol: a wallet an edge, the owners' ledgers, and, if wished, a wallet a region that the edges lease from.
//!
//! Edges do what the shell of a wallet does: spend from the cell, refuse by the cell, else let the wallet say, and send
//! whatever it wants sent. Units are metered when they are consumed: at the owner, at the broker, or out of a lease.

use std::collections::BTreeMap;

use leasehold_lease::{
    Answer, Checked, EdgeId, Event, LeaseAsk, Leased, Lent, Paid, Settings, Spend, Ticket, Wallet,
};
use leasehold_model::{BootTime, Key, Nanos, RequestId, Stamp};

use super::super::net::{EDGES, Net, Place, Policy, REGIONS, owner};
use super::super::traffic::Arrival;
use super::owners::{Owners, index, key};

/// A request waits for its owner no longer than this.
const BUDGET: Nanos = Nanos::from_millis(1_000);

/// Somebody with a wallet.
struct Holder {
    wallet: Wallet<()>,
    waiting: BTreeMap<Ticket, Arrival>,
    children: BTreeMap<RequestId, Place>,
    asked: BTreeMap<RequestId, Key>,
}

pub(crate) struct Leases {
    owners: Owners,
    edges: Vec<Holder>,
    brokers: Option<Vec<Holder>>,
    lives: u128,
}

pub(crate) enum Message {
    Ask(RequestId, LeaseAsk),
    Leased(RequestId, Leased),
}

impl Holder {
    fn new(life: u128) -> Self {
        Self {
            wallet: Wallet::new(EdgeId(life), life, Settings::default()),
            waiting: BTreeMap::new(),
            children: BTreeMap::new(),
            asked: BTreeMap::new(),
        }
    }

    /// Acts on what the wallet says. Returns the units that were consumed for children.
    fn act(&mut self, here: Place, net: &mut Net<Message>) -> u64 {
        let mut for_children = 0;
        while let Some(event) = self.wallet.poll_event() {
            match event {
                Event::Answered { ticket, answer } => {
                    let arrival = self.waiting.remove(&ticket).expect("it waits");
                    settle(arrival, &answer, net);
                }
                Event::Lent { id, leased } => {
                    let child = self.children.remove(&id);
                    if let (Some(child), Some(leased)) = (child, leased) {
                        for_children += leased.sync;
                        net.reply(here, child, Message::Leased(id, leased));
                    }
                }
                Event::Slot { .. } => {}
            }
        }
        for_children
    }

    fn send(&mut self, here: Place, brokered: bool, net: &mut Net<Message>) {
        while let Some(outgoing) = self.wallet.poll_ask(boot(net)) {
            let to = match here {
                Place::Edge(edge) if brokered => Place::Node(edge * REGIONS / EDGES),
                Place::Edge(_) | Place::Node(_) => owner(index(outgoing.ask.key)),
            };
            self.asked.insert(outgoing.id, outgoing.ask.key);
            net.call(here, to, Message::Ask(outgoing.id, outgoing.ask));
        }
        if let Some(BootTime(due)) = self.wallet.next_deadline() {
            net.wake(here, due);
        }
    }
}

impl Leases {
    pub(crate) fn new(owners: Owners, brokers: bool) -> Self {
        let life = |index: usize| Holder::new(u128::try_from(index + 1).expect("few"));
        Self {
            owners,
            edges: (0..EDGES).map(life).collect(),
            brokers: brokers.then(|| (EDGES..EDGES + REGIONS).map(life).collect()),
            lives: u128::try_from(EDGES + REGIONS + 1).expect("few"),
        }
    }

    fn holder(&mut self, at: Place) -> Option<&mut Holder> {
        match at {
            Place::Edge(edge) => self.edges.get_mut(edge),
            Place::Node(region) => self.brokers.as_mut().and_then(|brokers| brokers.get_mut(region)),
        }
    }

    /// Lets whoever is at `at` act and send.
    fn go_on(&mut self, at: Place, net: &mut Net<Message>) {
        let brokered = self.brokers.is_some();
        if let Some(holder) = self.holder(at) {
            holder.act(at, net);
            holder.send(at, brokered, net);
        }
    }

    fn asked(&mut self, at: Place, from: Place, id: RequestId, ask: &LeaseAsk, net: &mut Net<Message>) {
        let key = index(ask.key);
        if at == owner(key) {
            let (leased, consumed) = self.owners.ask(id, ask, Stamp(net.now()));
            net.spend(key, consumed);
            net.reply_committed(at, from, Message::Leased(id, leased));
            return;
        }
        let now = boot(net);
        let broker = self.holder(at).expect("who isn't the owner is a broker");
        match broker.wallet.handle_child_ask(id, ask, &(), after(now, BUDGET), now) {
            Lent::Answered(leased) => {
                net.spend(key, leased.sync);
                net.reply(at, from, Message::Leased(id, leased));
            }
            Lent::Waiting => {
                broker.children.insert(id, from);
            }
            Lent::NoRoom => unreachable!("no bound is reached"),
        }
    }

    fn leased(&mut self, at: Place, id: RequestId, leased: &Leased, net: &mut Net<Message>) {
        let now = boot(net);
        let Some(holder) = self.holder(at) else { return };
        let lost = holder.wallet.totals().sync_lost;
        let key = holder.asked.remove(&id);
        let heeded = holder.wallet.handle_leased(id, leased, now);
        let consumed = holder.act(at, net);
        // What the owner consumed for the children was metered there; the rest came out of the broker's own leases.
        if let (true, Some(key), Place::Node(_)) = (heeded, key, at) {
            let lost = holder.wallet.totals().sync_lost - lost;
            net.spend(index(key), consumed + lost - leased.sync);
        }
    }
}

impl Policy for Leases {
    type Message = Message;

    fn arrive(&mut self, arrival: Arrival, net: &mut Net<Message>) {
        let (key, now) = (key(arrival.key), boot(net));
        let edge = &mut self.edges[arrival.edge];
        if let Some(cell) = edge.wallet.cell(key) {
            if let Spend::Taken { low, .. } = cell.spend(1, now) {
                net.spend(arrival.key, 1);
                net.admit(arrival);
                if low {
                    edge.wallet.handle_low(key, now);
                    self.go_on(Place::Edge(arrival.edge), net);
                }
                return;
            }
            if cell.refuse(1, now).is_some() {
                net.refuse(arrival);
                return;
            }
        }
        match edge.wallet.handle_check(key, &(), 1, after(now, BUDGET), now) {
            Checked::Answered(answer) => settle(arrival, &answer, net),
            Checked::Waiting(ticket) => {
                edge.waiting.insert(ticket, arrival);
            }
            Checked::NoRoom => unreachable!("no bound is reached"),
        }
        self.go_on(Place::Edge(arrival.edge), net);
    }

    fn receive(&mut self, at: Place, from: Place, message: Message, net: &mut Net<Message>) {
        match message {
            Message::Ask(id, ask) => self.asked(at, from, id, &ask, net),
            Message::Leased(id, leased) => self.leased(at, id, &leased, net),
        }
        self.go_on(at, net);
    }

    fn wake(&mut self, at: Place, net: &mut Net<Message>) {
        let now = boot(net);
        if let Some(holder) = self.holder(at) {
            holder.wallet.handle_timeout(now);
        }
        self.go_on(at, net);
    }

    /// The owner goes on; the broker begins anew, and what it held is stranded.
    fn restart(&mut self, region: usize, _net: &mut Net<Message>) {
        self.owners.restart(region);
        if let Some(brokers) = &mut self.brokers {
            brokers[region] = Holder::new(self.lives);
            self.lives += 1;
        }
    }
}

fn settle(arrival: Arrival, answer: &Answer, net: &mut Net<Message>) {
    match answer {
        Answer::Taken { paid, .. } => {
            net.spend(arrival.key, u64::from(*paid == Paid::Lease));
            net.admit(arrival);
        }
        Answer::Denied { .. } | Answer::Undecided => net.refuse(arrival),
    }
}

/// Boot-time clocks all run right here.
fn boot(net: &Net<Message>) -> BootTime {
    BootTime(net.now())
}

fn after(now: BootTime, by: Nanos) -> BootTime {
    BootTime(now.0 + by.0)
}
