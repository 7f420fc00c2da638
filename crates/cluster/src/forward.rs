//! Carries asks of a shard that another node leads to that node, many in one message.

use std::sync::Arc;

use leasehold_consensus::types::GroupId;
use leasehold_shard::{Batch, Reply};
use leasehold_wire::peer::{Answered, AskRequest};

use crate::attempt::AttemptError;
use crate::calls;
use crate::counts::Meters;
use crate::lane::{Carry, Item, answer_all};
use crate::leader_client::LeaderClient;
use crate::merge::{Part, merge};
use crate::sessions::Session;

/// What one lane towards a shard's leader needs.
#[derive(Debug)]
pub(crate) struct Forwarder {
    pub(crate) group: GroupId,
    pub(crate) leaders: Arc<LeaderClient>,
    pub(crate) session: Arc<Session>,
    pub(crate) meters: Arc<Meters>,
}

impl Carry for Forwarder {
    const RESTS: bool = false;

    async fn carry(&self, items: Vec<Item>) {
        let Some(deadline) = items.iter().map(|item| item.deadline).max() else { return };
        let own = Batch { settled: self.session.settled().into_iter().collect(), ..Batch::default() };
        let parts = items.iter().map(|item| &*item.batch).chain([&own]);
        let (batch, cuts) = merge(parts.map(Part::unknown));
        Meters::count(&self.meters.forwards);
        Meters::count_all(&self.meters.forwarded, batch.commands.len());
        let read = |answer| Answered::<Vec<Reply>>::decode(answer).ok();
        let asked = self.leaders.ask(calls::ASK, self.group, AskRequest(batch).encode(), deadline, read);
        let outcome = asked.await.and_then(|replies| cuts.cut(replies).ok_or(AttemptError::Unknown));
        answer_all(items, outcome);
    }
}
