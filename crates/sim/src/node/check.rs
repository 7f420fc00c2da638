//! A client's request under several limits: one shard after the other, all or none, as the product's router does it.
//!
//! Invariant: a refusal returns what was taken before, under an id made from the request's. What may have been charged is never
//! returned: an unknown outcome ends the request as unanswered, and whoever asks again finds the same charges.

use std::collections::BTreeMap;
use std::rc::Rc;

use leasehold_limit::Ask;
use leasehold_model::{Key, RequestId};
use leasehold_shard::{Acquire, Acquired, Command, Demand, LimitSpec, Refund, RefundItem, Reply};

use super::job::{Cont, Failed};
use super::{Node, group_of};
use crate::clocks::{MILLI, SECOND, Time};
use crate::ctx::{Asked, Ctx, Message, Verdict, What};
use crate::invariants::RETURN_SALT;
use crate::net::Place;

/// A part is asked for so long.
const PART_BUDGET: Time = 700 * MILLI;
/// A return is tried for so long: within the time that replies are remembered.
const RETURN_BUDGET: Time = 15 * SECOND;

/// One shard's part of a request.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    group: usize,
    demands: Vec<Demand>,
    limits: Vec<LimitSpec>,
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) id: RequestId,
    client: usize,
    parts: Vec<Part>,
    took: Vec<Acquired>,
}

impl Node {
    /// A client asks.
    pub(crate) fn check(&mut self, client: usize, id: RequestId, costs: &Rc<[(Key, u64)]>, ctx: &mut Ctx) {
        if self.checks.values().any(|check| check.id == id) {
            return;
        }
        let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
        for &(key, cost) in costs.iter() {
            let group = group_of(key, &ctx.plan);
            let part = parts.entry(group).or_insert(Part { group, demands: Vec::new(), limits: Vec::new() });
            let limit = u32::try_from(part.limits.len()).unwrap_or(u32::MAX);
            part.demands.push(Demand { key, limit, ask: Ask::exactly(cost), shadow: false });
            part.limits.push(self.spec(key, &ctx.plan));
        }
        self.next += 1;
        let check = Check { id, client, parts: parts.into_values().collect(), took: Vec::new() };
        self.checks.insert(self.next, check);
        self.next_part(self.next, ctx);
    }

    fn next_part(&mut self, number: u64, ctx: &mut Ctx) {
        let Some(check) = self.checks.get(&number) else { return };
        let Some(part) = check.parts.get(check.took.len()).cloned() else {
            return self.end_check(number, Verdict::Allowed, ctx);
        };
        let acquire = Acquire { id: Some(check.id), remember_denial: true, demands: part.demands };
        let what = What::Shard(Command::Acquire(acquire));
        let asked = Asked { what, limits: part.limits, settled: None };
        self.job(part.group, asked, PART_BUDGET, Cont::Part(number), ctx);
    }

    pub(super) fn part_done(&mut self, number: u64, answer: Result<Option<Reply>, Failed>, ctx: &mut Ctx) {
        let Some(check) = self.checks.get_mut(&number) else { return };
        match answer {
            Ok(Some(Reply::Acquired(acquired))) if acquired.admitted => {
                check.took.push(acquired);
                self.next_part(number, ctx);
            }
            Ok(Some(Reply::Acquired(_))) => {
                self.give_back(number, ctx);
                self.end_check(number, Verdict::OverLimit, ctx);
            }
            Ok(Some(Reply::Refused(_))) => self.end_check(number, Verdict::Full, ctx),
            Ok(_) | Err(_) => self.end_check(number, Verdict::Unknown, ctx),
        }
    }

    /// Returns what earlier parts took.
    fn give_back(&mut self, number: u64, ctx: &mut Ctx) {
        let Some(check) = self.checks.get(&number) else { return };
        let id = RequestId { session: check.id.session ^ RETURN_SALT, ..check.id };
        let request = check.id;
        let returns: Vec<(usize, Refund)> = check
            .parts
            .iter()
            .zip(&check.took)
            .map(|(part, took)| {
                let item = |demand: &Demand| RefundItem {
                    key: demand.key,
                    cost: demand.ask.max,
                    charged_at: took.at,
                };
                (part.group, Refund { id, items: part.demands.iter().map(item).collect() })
            })
            .collect();
        for (group, refund) in returns {
            let asked =
                Asked { what: What::Shard(Command::Refund(refund)), limits: Vec::new(), settled: None };
            self.job(group, asked, RETURN_BUDGET, Cont::Return(request), ctx);
        }
    }

    fn end_check(&mut self, number: u64, verdict: Verdict, ctx: &mut Ctx) {
        let Some(check) = self.checks.remove(&number) else { return };
        let message = Message::Checked { id: check.id, verdict };
        ctx.send(Place::Node(self.id), Place::Client(check.client), message);
    }
}
