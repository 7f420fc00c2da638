//! The one clockwork of all groups of a node: heartbeats of those it leads, elections of those it doesn't.
//!
//! Invariant: the heartbeats of all groups leave together, so that an idle node sends one write to each peer a beat. A group
//! that is being handed over has no heartbeats.

use std::sync::Arc;
use std::time::Duration;

use leasehold_model::{Nanos, Stamp};
use tokio::sync::broadcast::error::RecvError;

use super::Inner;
use super::campaign::campaign;
use super::group::Group;
use crate::clock;
use crate::transport::PeerEvent;

/// The driver looks at its groups at most this often.
const PAUSE_MIN: Nanos = Nanos::from_millis(1);

/// Runs until it is dropped.
pub(super) async fn drive(runner: Arc<Inner>) {
    let beat = runner.config.timing.heartbeat;
    let mut events = runner.transport.events();
    let mut next_beat = clock::now();
    loop {
        let groups = runner.groups();
        let now = clock::now();
        if now >= next_beat {
            next_beat = next_beat.after(beat).max(now);
            beat_all(&groups).await;
        }
        let wake = groups.iter().filter_map(|group| look_after(group, now)).fold(next_beat, Stamp::min);
        let pause = wake.since(now).max(PAUSE_MIN);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_nanos(pause.0)) => {}
            () = runner.changed.notified() => {}
            event = events.recv() => match event {
                Ok(PeerEvent::Down(node)) => runner.groups().iter().for_each(|group| {
                    if !group.leads() && group.leader() == Some(node) {
                        group.election.lock().leader_lost(clock::now());
                    }
                }),
                Ok(PeerEvent::Up(_)) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            },
        }
    }
}

async fn beat_all(groups: &[Arc<Group>]) {
    for group in groups.iter().filter(|group| group.leads() && group.successor().is_none()) {
        // Only a queue: followers are asked elsewhere. A replica that has failed is told of where it failed.
        let _ = group.raft.trigger().heartbeat().await;
    }
}

/// Starts a campaign if it is time; returns when it will be.
fn look_after(group: &Arc<Group>, now: Stamp) -> Option<Stamp> {
    let mut election = group.election.lock();
    if group.leads() {
        // Who has just lost the lead doesn't ask for it at once.
        election.heard(now);
        return None;
    }
    election.heard(group.contact.heard());
    if election.ask(now) {
        let group = Arc::clone(group);
        tokio::spawn(async move { campaign(&group).await });
    }
    election.due()
}
