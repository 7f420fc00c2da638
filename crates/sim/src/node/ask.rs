//! Edges' asks for units: passed on to the owner, or, where that is in another region, answered out of what this node holds.

use std::rc::Rc;

use leasehold_lease::LeaseAsk;
use leasehold_model::RequestId;
use leasehold_shard::{Command, LeaseCommand, LimitSpec, Reply, Settled};

use super::job::{Cont, Failed};
use super::{Node, group_of};
use crate::clocks::{SECOND, Time};
use crate::ctx::{Asked, Ctx, Event, Message, What};
use crate::holder::Wants;
use crate::net::Place;

/// An ask is tried for so long: the edge asks again by itself.
const ASK_BUDGET: Time = SECOND;

impl Node {
    /// An edge asks.
    pub(crate) fn asked(
        &mut self,
        edge: usize,
        id: RequestId,
        ask: &Rc<LeaseAsk>,
        spec: &Rc<LimitSpec>,
        settled: Settled,
        ctx: &mut Ctx,
    ) {
        let group = group_of(ask.key, &ctx.plan);
        let here = ctx.net.region(Place::Node(self.id));
        let leader = self.leader(group);
        let far = leader.is_some_and(|leader| ctx.net.region(Place::Node(leader)) != here);
        self.broker.child_settled(settled);
        if far {
            let now = self.boot(ctx);
            let mut wants = Wants::default();
            self.broker.child_ask((edge, id), ask, spec, now, &mut wants, ctx);
            self.poll_broker(wants, ctx);
        } else if !self.asks_for(edge, id) {
            let command = LeaseCommand { id: Some(id), limit: 0, ask: (**ask).clone() };
            let what = What::Shard(Command::Lease(command));
            let asked = Asked { what, limits: vec![(**spec).clone()], settled: Some(settled) };
            self.job(group, asked, ASK_BUDGET, Cont::Ask(edge, id), ctx);
        }
    }

    pub(super) fn ask_done(
        &mut self,
        edge: usize,
        id: RequestId,
        answer: Result<Option<Reply>, Failed>,
        ctx: &mut Ctx,
    ) {
        let leased = match answer {
            Ok(Some(Reply::Leased(leased))) => Some(leased),
            Ok(Some(Reply::Refused(_))) => None,
            // Nobody could say: the edge asks again.
            Ok(_) | Err(_) => return,
        };
        ctx.send(Place::Node(self.id), Place::Edge(edge), Message::Leased { id, leased });
    }

    pub(super) fn own_done(&mut self, id: RequestId, answer: Result<Option<Reply>, Failed>, ctx: &mut Ctx) {
        let leased = match answer {
            Ok(Some(Reply::Leased(leased))) => Some(leased),
            Ok(Some(Reply::Refused(_))) => None,
            Ok(_) | Err(_) => return,
        };
        let now = self.boot(ctx);
        let mut wants = Wants::default();
        self.broker.leased(id, leased.as_ref(), now, &mut wants, ctx);
        self.poll_broker(wants, ctx);
    }

    /// The wallet wanted to be called.
    pub(crate) fn wake_broker(&mut self, ctx: &mut Ctx) {
        if self.broker.wake_at.is_none_or(|at| at > ctx.now) {
            return;
        }
        let now = self.boot(ctx);
        self.broker.wake_at = None;
        self.broker.timeout(now);
        self.poll_broker(Wants::default(), ctx);
    }

    pub(super) fn poll_broker(&mut self, mut wants: Wants, ctx: &mut Ctx) {
        let now = self.boot(ctx);
        self.broker.poll(now, &mut wants, ctx);
        for (edge, id, leased) in wants.answers {
            let message = Message::Leased { id, leased: Some(leased) };
            ctx.send(Place::Node(self.id), Place::Edge(edge), message);
        }
        for outgoing in wants.asks {
            if self.asks_itself(outgoing.id) {
                continue;
            }
            let group = group_of(outgoing.ask.key, &ctx.plan);
            let command = LeaseCommand { id: Some(outgoing.id), limit: 0, ask: outgoing.ask };
            let what = What::Shard(Command::Lease(command));
            let limits = vec![(*outgoing.limit).clone()];
            let asked = Asked { what, limits, settled: Some(self.broker.settled()) };
            self.job(group, asked, ASK_BUDGET, Cont::Own(outgoing.id), ctx);
        }
        self.set_alarm(ctx);
    }

    fn set_alarm(&mut self, ctx: &mut Ctx) {
        let Some(due) = self.broker.next_deadline() else { return };
        let wait = due.0.saturating_sub(self.boot(ctx).0) + 1;
        // Its clock may be slow: a little later is early enough.
        let at = ctx.now + wait + wait / 900;
        if self.broker.wake_at.is_some_and(|known| known <= at) {
            return;
        }
        self.broker.wake_at = Some(at);
        ctx.at(at, Event::Wake { place: Place::Node(self.id), life: self.life });
    }
}
