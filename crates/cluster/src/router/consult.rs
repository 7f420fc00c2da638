//! Questions that need no batching: what an acquire would be answered, and commands for the control group.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_consensus::transport::Kind;
use leasehold_consensus::types::GroupId;
use leasehold_control as control;
use leasehold_model::{RulesVersion, ShardId};
use leasehold_shard::{Acquire, LimitSpec, Reply};
use leasehold_wire::peer::{Answered, CommandRequest, PreviewRequest};
use tokio::time::{Instant, timeout_at};

use super::{Attempts, Inner, Router};
use crate::attempt::AttemptError;
use crate::machine::ShardMachine;
use crate::{Unanswered, calls};

impl Router {
    /// What one shard would answer an acquire now. Takes and records nothing.
    ///
    /// # Errors
    /// No leader answered.
    pub(crate) async fn preview_shard(
        &self,
        shard: ShardId,
        limits: &[LimitSpec],
        acquire: &Acquire,
        deadline: Instant,
    ) -> Result<Reply, Unanswered> {
        let group = GroupId::of_shard(shard);
        let mut attempts = Attempts::new(&self.0, group, deadline);
        let mut payload = None;
        loop {
            let outcome = if self.0.local.serves(group) {
                self.0.preview(group, limits, acquire)
            } else {
                let payload = payload.get_or_insert_with(|| {
                    PreviewRequest { limits: limits.to_vec(), acquire: acquire.clone() }.encode()
                });
                self.0.consult(calls::PREVIEW, group, payload, deadline, Answered::<Reply>::decode).await
            };
            match outcome {
                Ok(reply) => return Ok(reply),
                // Nothing is ever done for a look.
                Err(AttemptError::Unknown | AttemptError::NotLeader) => {
                    attempts.failed(AttemptError::NotLeader).await?
                }
                Err(AttemptError::Overloaded) => attempts.failed(AttemptError::Overloaded).await?,
            }
        }
    }

    /// Has the control group carry out a command. After an unknown outcome it is proposed again: every command may be.
    ///
    /// # Errors
    /// [`Unanswered`] says whether it may have been carried out.
    pub async fn command(
        &self,
        command: control::Command,
        deadline: Instant,
    ) -> Result<control::Reply, Unanswered> {
        let group = GroupId::CONTROL;
        let mut attempts = Attempts::new(&self.0, group, deadline);
        let mut payload = None;
        loop {
            let outcome = if self.0.local.serves(group) {
                self.0.command(&command, deadline).await
            } else {
                let payload = payload.get_or_insert_with(|| CommandRequest(command.clone()).encode());
                let read = Answered::<control::Reply>::decode;
                self.0.consult(calls::COMMAND, group, payload, deadline, read).await
            };
            match outcome {
                Ok(control::Reply::Refused(control::Refusal::RulesConflict(version))) if attempts.unknown => {
                    return Ok(self.resolve_conflict(&command, version, deadline).await);
                }
                Ok(reply) => return Ok(reply),
                Err(failed) => attempts.failed(failed).await?,
            }
        }
    }

    /// Rules that were to replace a certain version conflict with themselves when they were proposed twice: if what is in
    /// force is what was proposed, that was it.
    pub(super) async fn resolve_conflict(
        &self,
        command: &control::Command,
        version: RulesVersion,
        deadline: Instant,
    ) -> control::Reply {
        let conflict = control::Reply::Refused(control::Refusal::RulesConflict(version));
        let control::Command::Rules(change) = command else { return conflict };
        let mut control = self.0.control.clone();
        let caught_up = control.wait_for(|control| control.rules_version() >= version);
        let Ok(Ok(control)) = timeout_at(deadline, caught_up).await else { return conflict };
        let in_force = control.rules().get(&change.domain).map(|rules| &rules.text);
        if in_force == change.text.as_ref() {
            control::Reply::Rules(control.rules_version())
        } else {
            conflict
        }
    }
}

impl Inner {
    /// One attempt to ask a group's leader elsewhere.
    async fn consult<T, E>(
        &self,
        kind: Kind,
        group: GroupId,
        payload: &Bytes,
        deadline: Instant,
        read: impl FnOnce(Bytes) -> Result<Answered<T>, E>,
    ) -> Result<T, AttemptError> {
        self.leaders.ask(kind, group, payload.clone(), deadline, |answer| read(answer).ok()).await
    }

    /// What this node's replica would answer, read under its lease.
    pub(super) fn preview(
        &self,
        group: GroupId,
        limits: &[LimitSpec],
        acquire: &Acquire,
    ) -> Result<Reply, AttemptError> {
        let at = self.local.stamp(group).ok_or(AttemptError::NotLeader)?;
        let read = |machine: &ShardMachine| machine.shard.preview(limits, acquire, at);
        let reply = self.local.runner.with_machine(group, read);
        // The lease has to hold after the reading: before it, the process may have been stopped in between.
        reply.filter(|_| self.local.serves(group)).ok_or(AttemptError::NotLeader)
    }

    /// Proposes to the control group, which this node leads.
    pub(super) async fn command(
        self: &Arc<Self>,
        command: &control::Command,
        deadline: Instant,
    ) -> Result<control::Reply, AttemptError> {
        let at = self.local.stamp(GroupId::CONTROL).ok_or(AttemptError::NotLeader)?;
        let entry = leasehold_wire::control::encode_command(at, command);
        self.local.propose(GroupId::CONTROL, entry, deadline).await
    }
}
