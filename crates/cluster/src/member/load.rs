//! What a member does and tells of itself once a second: moves its shards' time on, says how busy it is and what it leads.
//!
//! Invariant: no other node is waited for.

use std::sync::Arc;

use leasehold_gossip::Load;
use leasehold_model::{BootTime, Nanos};
use rustix::time::{ClockId, clock_gettime};

use super::{Inner, each_second};

/// Goes on until the node stops.
pub(super) async fn tell(inner: Arc<Inner>) {
    let mut tick = each_second();
    let mut before = Usage::read(&inner);
    loop {
        tick.tick().await;
        let Some(part) = inner.part.get() else { return };
        part.router.tick();
        let now = Usage::read(&inner);
        let led = crate::whereabouts::led(&part.runner, inner.data.node());
        let leading = u64::try_from(led.len()).unwrap_or(u64::MAX);
        inner.whereabouts.tell(now.load_since(before, leading), led);
        before = now;
        if inner.vitals.gossip(inner.whereabouts.healthy(), inner.clock.boot()) {
            tracing::warn!("gossip is down: leaders are found more slowly, nothing else changes");
        }
    }
}

/// What was used and done so far.
#[derive(Clone, Copy, Debug)]
struct Usage {
    at: BootTime,
    cpu: Nanos,
    commands: u64,
    keys: u64,
}

impl Usage {
    fn read(inner: &Inner) -> Self {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let nanos = |number: i64| u64::try_from(number).unwrap_or(0);
        let counts = inner.part.get().map(|part| part.router.counts()).unwrap_or_default();
        Self {
            at: inner.clock.boot(),
            cpu: Nanos(nanos(time.tv_sec).saturating_mul(1_000_000_000).saturating_add(nanos(time.tv_nsec))),
            commands: counts.commands.saturating_add(counts.unlogged),
            keys: inner.part.get().map(|part| part.holdings().keys).unwrap_or_default(),
        }
    }

    fn load_since(self, before: Self, leading: u64) -> Load {
        let millis = (self.at.since(before.at).0 / 1_000_000).max(1);
        let cpu_micros = self.cpu.0.saturating_sub(before.cpu.0) / 1_000;
        let commands = self.commands.saturating_sub(before.commands);
        Load {
            cpu_millicores: cpu_micros / millis,
            keys: self.keys,
            decisions_per_second: commands.saturating_mul(1_000) / millis,
            leading,
        }
    }
}
