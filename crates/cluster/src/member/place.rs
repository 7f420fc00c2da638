//! Watches that the node's data directory is where it belongs: before the node takes part, and while it is alone.
//!
//! Invariant: a node whose directory is misplaced at its start has no part in anything until that has changed. One that finds
//! out later isn't ready.

use std::sync::Arc;
use std::time::Duration;

use leasehold_consensus::transport::{ClusterId, Identity};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{Inner, Phase, part};
use crate::StartError;
use crate::misplaced::{Question, in_words};

/// How often a node whose directory is misplaced asks again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often a member that is connected with no other asks.
const ALONE_EVERY: Duration = Duration::from_secs(5);

/// Takes part, at once or when the directory is where it belongs.
pub(super) async fn take_part(inner: &Arc<Inner>) -> Result<(), StartError> {
    let Some(why) = misplaced(inner).await? else { return part::take(inner, Vec::new()).await };
    let mut said = String::new();
    tell(inner, &mut said, why);
    let waiting = Arc::clone(inner);
    let forming = tokio::spawn(async move {
        let stop = waiting.stop.clone();
        let belongs = async {
            loop {
                sleep(AGAIN_AFTER).await;
                match misplaced(&waiting).await? {
                    Some(why) => tell(&waiting, &mut said, why),
                    None => return Ok(()),
                }
            }
        };
        let taken = match stop.run_until_cancelled(belongs).await {
            Some(Ok(())) => part::take(&waiting, Vec::new()).await,
            Some(Err(error)) => Err(error),
            None => Ok(()),
        };
        if let Err(error) = taken {
            waiting.fatal.tell(&error.to_string());
        }
    });
    *inner.forming.lock() = Some(forming);
    Ok(())
}

fn tell(inner: &Inner, said: &mut String, why: String) {
    if why != *said {
        tracing::error!("{why}");
        said.clone_from(&why);
        inner.phase.send_replace(Phase::Waiting(why));
    }
}

/// Asks as long as the member is connected with no other: a whole cluster of one may stand on a misplaced directory.
pub(super) async fn watch(inner: Arc<Inner>) {
    let mut tick = interval(ALONE_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let alone = !inner.transport.peers().iter().any(|(_, up)| *up);
        let found = if alone { misplaced(&inner).await } else { Ok(None) };
        // What the directory can't tell now it told at the start.
        let Ok(found) = found else { continue };
        if let Some(why) = found.as_ref().filter(|why| inner.vitals.misplaced().as_ref() != Some(why)) {
            tracing::error!("{why}");
        }
        inner.vitals.set_misplaced(found);
    }
}

/// Why the directory doesn't belong here, in words.
async fn misplaced(inner: &Inner) -> Result<Option<String>, StartError> {
    let Some(cluster) = inner.identity.cluster() else { return Ok(None) };
    let founders = inner.identity.founded().map(|founding| founding.founders).unwrap_or_default();
    let founders = founders.iter().map(|founder| founder.peer_address.to_string());
    let peers = inner.data.peers()?.into_iter().map(|(_, address)| address.to_string());
    let question = Question {
        me: Identity { cluster: ClusterId(cluster.0), node: inner.data.node() },
        request: inner.identity.request().clone(),
        known: founders.chain(peers).collect(),
    };
    let strangers = question.ask(&inner.transport).await;
    Ok(strangers.map(|strangers| in_words(&inner.config.data, &inner.config.name, &strangers)))
}
