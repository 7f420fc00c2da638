//! The task that brings the upstream's answers into the wallets and looks at them when their time comes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_lease::edge_lifetime;
use leasehold_model::BootTime;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::Shared;
use super::stripe::{Slot, Work};
use crate::{NoGrant, Upstream, UpstreamAnswer};

/// Answers taken at once. Beyond, the timers get their turn first.
const ANSWERS_MAX: usize = 1_024;
/// The longest sleep. Timers and the boot-time clock may drift apart in suspend by as much as it was long.
const SLEEP_MAX: Duration = Duration::from_secs(1);

pub(super) async fn run<U: Upstream>(
    shared: Arc<Shared<U>>,
    mut answered: mpsc::UnboundedReceiver<UpstreamAnswer>,
) {
    let mut answers = Vec::with_capacity(ANSWERS_MAX);
    loop {
        let sleep_for = shared.rest();
        tokio::select! {
            _ = answered.recv_many(&mut answers, ANSWERS_MAX) => {}
            () = shared.poke.notified() => {}
            () = sleep(sleep_for) => {}
        }
        for answer in answers.drain(..) {
            shared.answered(&answer);
        }
        shared.look();
    }
}

impl<U: Upstream> Shared<U> {
    /// How long there is nothing to do, unless something happens.
    fn rest(&self) -> Duration {
        // Whoever sets a timer from here on sees that it is looked for, or is seen.
        self.asleep_until.store(u64::MAX, Ordering::SeqCst);
        let due = self.stripes.iter().map(|stripe| stripe.due().0).min().unwrap_or(u64::MAX);
        self.asleep_until.store(due, Ordering::SeqCst);
        Duration::from_nanos(due.saturating_sub(self.clock.boot().0)).min(SLEEP_MAX)
    }

    fn look(&self) {
        let now = self.clock.boot();
        for (number, stripe) in self.stripes.iter().enumerate() {
            if stripe.due() <= now {
                self.touch_stripe(number, now, |inside| inside.wallet.handle_timeout(now));
            }
        }
    }

    fn answered(&self, answer: &UpstreamAnswer) {
        if self.numbered(answer) {
            return;
        }
        let UpstreamAnswer { id, outcome } = answer;
        let number = id.session ^ self.session;
        let Some(number) = usize::try_from(number).ok().filter(|&number| number < self.stripes.len()) else {
            return;
        };
        let now = self.clock.boot();
        let mut work = Work::default();
        let mut inside = self.stripes[number].lock();
        match outcome {
            Ok(grant) => {
                inside.wallet.handle_leased(*id, &grant.leased, now);
            }
            Err(NoGrant::Overloaded | NoGrant::Refused(_)) => inside.wallet.handle_refused(*id, now),
            // The wallet sends it again in its own time.
            Err(NoGrant::Unreachable) => {}
        }
        inside.collect(now, Some(outcome), &mut work);
        self.stripes[number].unlock(inside);
        self.act(work);
    }

    /// Acts on what came of touching a wallet.
    pub(super) fn act(&self, work: Work) {
        let Work { tell, lent, asks, settled, slots, emptied, due } = work;
        for Slot { key, number, parts, sent } in slots {
            self.set_aside.slot(self.upstream.shard(key), number, parts, sent);
        }
        if let Some(settled) = settled {
            let lifetime = asks.iter().map(|ask| edge_lifetime(ask.ask.lifetime)).max().unwrap_or_default();
            let deadline = Instant::now() + Duration::from_nanos(lifetime.0);
            self.upstream.lease(asks, settled, deadline, &self.answers);
        }
        for (waiting, heard) in tell {
            // Whoever waited may be gone.
            let _ = waiting.send(heard);
        }
        for (waiting, leased) in lent {
            let _ = waiting.send(leased);
        }
        if emptied {
            self.emptied.send_modify(|stripes| *stripes += 1);
        }
        if due.is_some_and(|due| due < BootTime(self.asleep_until.load(Ordering::SeqCst))) {
            self.poke.notify_one();
        }
    }
}
