//! Notices that rules may have changed: events of their folders, SIGHUP, and a poll for file systems without events.
//!
//! It decides nothing: every hint ends in [`FileRules::reload`], which compares contents.

use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::FileRules;
use super::files::Reload;

/// An editor writes in several steps: the files are read once they have been quiet for this long,
const QUIET: Duration = Duration::from_millis(50);

/// or at the latest after this long.
const QUIET_WAIT_MAX: Duration = Duration::from_secs(1);

/// Network file systems tell nothing. A poll reads a few files and compares them.
const POLL_EVERY: Duration = Duration::from_secs(2);

/// What gives hints. Made before a port opens: from then on SIGHUP must not end the process.
pub(crate) struct Watch {
    rules: Arc<FileRules>,
    changed: Arc<Notify>,
    hangups: Option<Signal>,
    /// They stop when they are dropped.
    _watchers: Vec<RecommendedWatcher>,
}

impl Watch {
    /// Begins to listen.
    pub(crate) fn new(rules: Arc<FileRules>) -> Self {
        let changed = Arc::new(Notify::new());
        let watchers = watchers(&rules, &changed);
        Self { rules, changed, hangups: hangups(), _watchers: watchers }
    }

    /// Reloads at each hint until stopped.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut poll = interval_at(Instant::now() + POLL_EVERY, POLL_EVERY);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let asked = tokio::select! {
                () = stop.cancelled() => break,
                () = self.changed.notified() => { quiet(&self.changed).await; false }
                _ = poll.tick() => false,
                () = next_hangup(&mut self.hangups) => true,
            };
            let outcome = reload(&self.rules).await;
            if asked {
                tracing::info!(?outcome, "rules read again on SIGHUP");
            }
        }
    }
}

/// Reads the rules off the async threads.
pub(crate) async fn reload(rules: &Arc<FileRules>) -> Reload {
    let rules = Arc::clone(rules);
    match tokio::task::spawn_blocking(move || rules.reload()).await {
        Ok(outcome) => outcome,
        // It panicked, which left a line, or the runtime is going down.
        Err(_) => Reload::Unchanged,
    }
}

/// Folders are watched, not files: an editor's rename-over and a swapped link change the folder and not the file.
fn watchers(rules: &FileRules, changed: &Arc<Notify>) -> Vec<RecommendedWatcher> {
    let folders = rules.source().folders();
    let watched = folders.iter().map(|folder| {
        let changed = Arc::clone(changed);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.map_or(true, |event| is_change(&event.kind)) {
                changed.notify_one();
            }
        })?;
        watcher.watch(folder, RecursiveMode::NonRecursive)?;
        Ok::<_, notify::Error>(watcher)
    });
    watched
        .filter_map(|watcher| {
            watcher.inspect_err(|error| tracing::warn!(%error, "rules are polled, not watched")).ok()
        })
        .collect()
}

/// Reading the rules is an event too, and must not lead to reading them.
fn is_change(kind: &EventKind) -> bool {
    match kind {
        EventKind::Access(access) => matches!(access, AccessKind::Close(AccessMode::Write)),
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
    }
}

async fn quiet(changed: &Notify) {
    let last = Instant::now() + QUIET_WAIT_MAX;
    let settled = async { while timeout(QUIET, changed.notified()).await.is_ok() {} };
    // At the bound it is read anyway: the next event reads again.
    drop(timeout_at(last, settled).await);
}

fn hangups() -> Option<Signal> {
    signal(SignalKind::hangup())
        .inspect_err(|error| tracing::warn!(%error, "SIGHUP will not reload the rules"))
        .ok()
}

async fn next_hangup(hangups: &mut Option<Signal>) {
    match hangups {
        Some(hangups) => {
            hangups.recv().await;
        }
        None => std::future::pending().await,
    }
}
