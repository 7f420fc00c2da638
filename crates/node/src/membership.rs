//! Follows the cluster for as long as the node runs: its rules are put in force here, and traffic is called or sent away.
//!
//! Invariant: no traffic is called before the cluster's rules are known here, first ones included: a request without rules
//! would pass.

use std::sync::Arc;
use std::time::Duration;

use leasehold_cluster::{Cluster, Phase};
use leasehold_control::{Command, Control, Reply};
use leasehold_front::Readiness;
use leasehold_service::Gate;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::rules::{ClusterRules, FirstRules};

/// Whoever creates the cluster has this long to give it its first rules.
const FIRST_RULES_AFTER: Duration = Duration::from_secs(1);
/// How long the control group may take over one of them.
const CARRIED_OUT_WITHIN: Duration = Duration::from_secs(5);

/// A node's view of its cluster.
pub(crate) struct Membership {
    cluster: Cluster,
    rules: Arc<ClusterRules>,
    gate: Arc<Gate>,
    first: FirstRules,
    /// Whether the cluster is still to be given its first rules. `None`: its state isn't known yet.
    awaiting: Option<bool>,
    hangups: Option<Signal>,
}

impl Membership {
    /// Made before a port opens: from then on SIGHUP must not end the process.
    pub(crate) fn new(
        cluster: Cluster,
        rules: Arc<ClusterRules>,
        gate: Arc<Gate>,
        first: FirstRules,
    ) -> Self {
        Self { cluster, rules, gate, first, awaiting: None, hangups: signal(SignalKind::hangup()).ok() }
    }

    /// Follows until stopped.
    pub(crate) async fn follow(mut self, stop: CancellationToken) {
        let mut phase = self.cluster.phase();
        loop {
            let now = phase.borrow_and_update().clone();
            let readiness = self.look(now).await;
            let ready = readiness == Readiness::Ready;
            if self.gate.set(readiness) && ready {
                tracing::info!(version = %self.rules.in_force().version(), "ready");
            }
            tokio::select! {
                () = stop.cancelled() => break,
                changed = phase.changed() => if changed.is_err() { break },
                () = sleep(FIRST_RULES_AFTER), if self.awaiting == Some(true) => self.propose_first_rules().await,
                () = next_hangup(&mut self.hangups) => {
                    tracing::info!("the cluster keeps the rules: change them by `leasehold rules apply`");
                }
            }
        }
    }

    /// Gives the cluster its first rules where whoever created it hasn't: another node's configuration may name none.
    async fn propose_first_rules(&self) {
        let missing = match &*self.cluster.phase().borrow() {
            Phase::Member(control) if self.first.are_awaited(control) => self.first.missing(control),
            Phase::Member(_) | Phase::Waiting(_) => Vec::new(),
        };
        for change in missing {
            let domain = Arc::clone(&change.domain);
            match self.cluster.command(Command::Rules(change), Instant::now() + CARRIED_OUT_WITHIN).await {
                Ok(Reply::Rules(version)) => {
                    tracing::info!(%domain, %version, "gave the cluster its first rules")
                }
                Ok(reply @ (Reply::Done | Reply::Map(_) | Reply::Refused(_))) => {
                    return tracing::debug!(%domain, ?reply, "the cluster got other first rules");
                }
                Err(error) => return tracing::info!(%domain, %error, "the cluster has no first rules yet"),
            }
        }
    }

    /// Puts the cluster's rules in force; whether traffic should come then.
    async fn look(&mut self, phase: Phase) -> Readiness {
        let control = match phase {
            Phase::Waiting(why) => return Readiness::NotReady(why),
            Phase::Member(control) => control,
        };
        if self.awaits_first_rules(&control) {
            let why = "the cluster has not all of the rules yet that it is to be created with";
            return Readiness::NotReady(why.to_owned());
        }
        self.put_in_force(&control).await;
        match self.rules.in_force().active() {
            Some(_) => Readiness::Ready,
            None => {
                Readiness::NotReady("the cluster's rules are not understood here; see the log".to_owned())
            }
        }
    }

    async fn put_in_force(&self, control: &Arc<Control>) {
        let (rules, control) = (Arc::clone(&self.rules), Arc::clone(control));
        if rules.has_followed(control.rules_version()) {
            return;
        }
        // It takes as long as reading all rules. A panic in it left a line.
        drop(tokio::task::spawn_blocking(move || rules.follow(&control)).await);
        self.cluster.set_rules(self.rules.in_force().version());
    }

    /// Whether the cluster is new and its first rules are on their way: who decided without them would let all pass.
    fn awaits_first_rules(&mut self, control: &Control) -> bool {
        let awaiting = self.awaiting.unwrap_or_else(|| {
            let new = control.rules_version().0 == 0;
            if !new && !self.first.texts().is_empty() && !self.first.are_those_of(control) {
                tracing::warn!(
                    version = %control.rules_version(),
                    "the cluster's rules are not those of the configuration, which count only when a cluster is created: \
                     change them by `leasehold rules apply`"
                );
            }
            new
        });
        let awaiting = awaiting && self.first.are_awaited(control);
        self.awaiting = Some(awaiting);
        awaiting
    }
}

async fn next_hangup(hangups: &mut Option<Signal>) {
    match hangups {
        Some(hangups) => drop(hangups.recv().await),
        None => std::future::pending().await,
    }
}
