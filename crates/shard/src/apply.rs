//! Commands, one by one: look for a remembered reply, decide, commit, remember, sweep a little.

use leasehold_limit::{Limit, State};
use leasehold_model::{Key, RequestId, Stamp, TenantId};

use crate::evaluate::{Evaluation, Numbers, Touched};
use crate::hash::{fingerprint_acquire, fingerprint_refund};
use crate::intern::Under;
use crate::replies::{Remembered, weight};
use crate::table::Held;
use crate::{Acquire, Command, LimitSpec, Refund, RefundItem, Refusal, Reply, Reset, Shard};

/// Expired replies dropped, and keys whose leases ended looked at, with each command, which adds one at most: a backlog
/// shrinks, and no command pays for all of it.
const EXPIRE_PER_COMMAND: usize = 16;

/// An acquire that has no reply yet.
pub(crate) struct Open {
    evaluation: Evaluation,
    /// Under which id, with what content and on whose account its reply is to be remembered.
    remember: Option<(RequestId, u64, TenantId)>,
}

impl Shard {
    pub(crate) fn command(&mut self, limits: &[LimitSpec], command: &Command, at: Stamp) -> Reply {
        self.replies.expire(at, self.bounds.retry_window, EXPIRE_PER_COMMAND);
        self.end_leases(at, EXPIRE_PER_COMMAND);
        let (reply, items) = match command {
            Command::Acquire(acquire) => (self.acquire(limits, acquire, at), acquire.demands.len()),
            Command::Refund(refund) => (self.refund(refund, at), refund.items.len()),
            Command::Reset(reset) => (self.reset(reset, at), reset.keys.len()),
            Command::Lease(lease) => (self.lease(limits, lease, at), 1),
        };
        self.sweep_after(items, &reply, at);
        reply
    }

    /// The reply to an acquire when it changes nothing, else what is to be committed.
    pub(crate) fn consider(&self, limits: &[LimitSpec], acquire: &Acquire, at: Stamp) -> Result<Open, Reply> {
        let refused = |refusal| Err(Reply::Refused(refusal));
        if self.too_many(acquire.demands.len()) || acquire.demands.iter().any(|d| d.ask.min > d.ask.max) {
            return refused(Refusal::Malformed);
        }
        let fingerprint = acquire.id.map_or(0, |_| fingerprint_acquire(acquire));
        if let Some(id) = acquire.id
            && let Some(reply) = self.replies.recall(id, fingerprint, at, self.bounds.retry_window)
        {
            return Err(reply);
        }
        let mut remember = None;
        if let Some(id) = acquire.id
            && acquire.demands.iter().any(|demand| !demand.ask.is_peek())
        {
            let spec = usize::try_from(acquire.demands[0].limit).ok().and_then(|i| limits.get(i));
            let Some(spec) = spec else { return refused(Refusal::Malformed) };
            // Whoever keeps count has few open at a time, and is not to suffer from those who make ids up.
            if acquire.remember_denial && self.replies_full(spec.tenant, acquire.demands.len()) {
                return refused(Refusal::RepliesFull(spec.tenant));
            }
            remember = Some((id, fingerprint, spec.tenant));
        }
        match self.evaluate(limits, &acquire.demands, at) {
            Ok(evaluation) => {
                let kept = evaluation.acquired.admitted || acquire.remember_denial;
                Ok(Open { evaluation, remember: remember.filter(|_| kept) })
            }
            Err(refusal) => refused(refusal),
        }
    }

    fn acquire(&mut self, limits: &[LimitSpec], acquire: &Acquire, at: Stamp) -> Reply {
        let open = match self.consider(limits, acquire, at) {
            Ok(open) => open,
            Err(reply) => return reply,
        };
        let Evaluation { acquired, touched } = open.evaluation;
        for touched in touched {
            self.commit(limits, touched, at);
        }
        let reply = Reply::Acquired(acquired);
        if let Some((id, fingerprint, tenant)) = open.remember {
            self.replies.remember(Remembered { id, at, fingerprint, tenant, reply: reply.clone() });
        }
        reply
    }

    pub(crate) fn commit(&mut self, limits: &[LimitSpec], touched: Touched, at: Stamp) {
        let Touched { key, numbers, state, taken, carried, .. } = touched;
        self.ledger.drop_ended(key, at);
        let Some(state) = state else {
            let Numbers::Stored(id) = numbers else { return };
            let limit = &self.limits.get(id).spec.limit;
            return self.table.change_wide(key, |state| limit.charge(state, at, taken));
        };
        match numbers {
            // Its limit is interned already, and stays so.
            Numbers::Stored(id) => {
                self.table.put(key, id, state);
            }
            Numbers::Asked(asked) => {
                let id = self.limits.take(&Under { spec: limits[asked].clone(), carried });
                if let Some(before) = self.table.put(key, id, state) {
                    self.limits.release(before);
                }
            }
        }
    }

    /// A refund's reply is counted to the tenant of the first of its counters that is held. When none is, there is nothing
    /// to give back, now or on a retry, and nothing is remembered.
    fn refund(&mut self, refund: &Refund, at: Stamp) -> Reply {
        if self.too_many(refund.items.len()) {
            return Reply::Refused(Refusal::Malformed);
        }
        let fingerprint = fingerprint_refund(refund);
        if let Some(reply) = self.replies.recall(refund.id, fingerprint, at, self.bounds.retry_window) {
            return reply;
        }
        let Some(tenant) = refund.items.iter().find_map(|item| self.tenant_of(item.key, at)) else {
            return Reply::Refunded(vec![0; refund.items.len()]);
        };
        if self.replies_full(tenant, refund.items.len()) {
            return Reply::Refused(Refusal::RepliesFull(tenant));
        }
        let reply = Reply::Refunded(refund.items.iter().map(|item| self.give_back(item, at)).collect());
        self.replies.remember(Remembered { id: refund.id, at, fingerprint, tenant, reply: reply.clone() });
        reply
    }

    fn give_back(&mut self, item: &RefundItem, at: Stamp) -> u64 {
        let Some(counter) = self.table.get(item.key) else { return 0 };
        let id = counter.limit;
        let Under { spec: LimitSpec { limit, .. }, carried } = self.limits.get(id);
        // Whether it was returned already isn't remembered any more.
        if at.since(item.charged_at) >= self.bounds.retry_window {
            return 0;
        }
        // Under other numbers it would be credited by the wrong refill.
        if *carried > Stamp::ZERO && item.charged_at <= *carried {
            return 0;
        }
        let mut state = counter.state.into_owned();
        let out = self.ledger.beside(item.key, limit, &mut state, at);
        let returned = limit.refund_beside(&mut state, at, item.cost, item.charged_at, out);
        self.keep(item.key, id, state, at);
        returned
    }

    fn reset(&mut self, reset: &Reset, at: Stamp) -> Reply {
        if self.too_many(reset.keys.len()) {
            return Reply::Refused(Refusal::Malformed);
        }
        let mut held: u32 = 0;
        for &key in &reset.keys {
            held = held.saturating_add(u32::from(self.tenant_of(key, at).is_some()));
            let Some(id) = self.table.get(key).map(|counter| counter.limit) else { continue };
            self.ledger.drop_ended(key, at);
            let out = self.ledger.out(key, at);
            if out.units() > 0 {
                // It may be spent still, so it stays used.
                let state = self.limits.get(id).spec.limit.fresh_beside(at, out);
                self.table.put(key, id, state);
            } else {
                self.table.remove(key);
                self.limits.release(id);
            }
        }
        Reply::Reset(held)
    }

    /// Stores what has become of a counter, all leases that have ended by `at` being spent in it; or drops it, if nothing
    /// has.
    pub(crate) fn keep(&mut self, key: Key, id: u32, state: State, at: Stamp) {
        self.ledger.drop_ended(key, at);
        if self.is_fresh(key, id, &state, at) {
            self.drop_counter(key);
        } else {
            self.table.put(key, id, state);
        }
    }

    /// Whether a counter in which all leases that have ended by `at` are spent equals a fresh one.
    pub(crate) fn is_fresh(&self, key: Key, id: u32, state: &State, at: Stamp) -> bool {
        self.limits.get(id).spec.limit.fresh_at(state) <= at && self.ledger.out(key, at).units() == 0
    }

    /// A stored state with all leases that have ended by `at` spent in it.
    pub(crate) fn beside<'a>(&self, key: Key, limit: &Limit, state: Held<'a>, at: Stamp) -> Held<'a> {
        if !self.ledger.holds(key) {
            return state;
        }
        let mut state = state.into_owned();
        self.ledger.beside(key, limit, &mut state, at);
        Held::Narrow(state)
    }

    /// Whose counter it is, if it holds anything.
    fn tenant_of(&self, key: Key, at: Stamp) -> Option<TenantId> {
        let counter = self.table.get(key)?;
        let Under { spec, .. } = self.limits.get(counter.limit);
        let state = self.beside(key, &spec.limit, counter.state, at);
        (!self.is_fresh(key, counter.limit, state.get(), at)).then_some(spec.tenant)
    }

    /// Drops a counter that equals a fresh one.
    pub(crate) fn drop_counter(&mut self, key: Key) {
        if let Some(id) = self.table.remove(key) {
            self.limits.release(id);
            self.evicted = self.evicted.saturating_add(1);
        }
    }

    /// Whether a reply of that many decisions has no room.
    fn replies_full(&self, tenant: TenantId, decisions: usize) -> bool {
        let held = self.replies.of(tenant).saturating_add(weight(decisions));
        held > self.bounds.replies_per_tenant_max
    }

    fn too_many(&self, items: usize) -> bool {
        items > usize::try_from(self.bounds.items_max).unwrap_or(usize::MAX)
    }
}

impl Open {
    pub(crate) fn changes_nothing(&self) -> bool {
        self.evaluation.touched.is_empty() && self.remember.is_none()
    }

    pub(crate) fn into_reply(self) -> Reply {
        Reply::Acquired(self.evaluation.acquired)
    }
}
