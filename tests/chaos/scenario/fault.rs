//! What can be done to a cluster, as scenarios name it.

use std::fmt;
use std::time::Duration;

use rand::Rng;
use serde::{Deserialize, Deserializer};

use super::Need;

/// Something that is done once or again and again while there is trouble.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FaultSpec {
    pub(crate) kind: FaultKind,
    /// To whom; which one is found out or drawn when it begins.
    pub(crate) target: Option<Target>,
    /// After the trouble has begun.
    pub(crate) at_s: Drawn,
    /// From one beginning to the next. Absent: once.
    pub(crate) every_s: Option<Drawn>,
    /// How long it lasts.
    pub(crate) for_s: Option<Drawn>,
    /// Of a cut: which direction, seen from the target. Absent: both.
    pub(crate) one_way: Option<OneWay>,
    /// Of `clock-step`: by how many seconds.
    pub(crate) seconds: Option<Drawn>,
    /// Of `clock-drift`: how much faster than right, in hundredths.
    pub(crate) percent: Option<Drawn>,
    /// Of `slow-disk`: how long each sync takes on top.
    pub(crate) sync_ms: Option<Drawn>,
    /// Of `flood` and `gossip-attack`: requests, or datagrams, a second.
    pub(crate) rate: Option<Drawn>,
    /// Of `weather`: hundredths of packets that are lost.
    pub(crate) loss_percent: Option<Drawn>,
    /// That arrive twice.
    pub(crate) duplicate_percent: Option<Drawn>,
    /// That later ones overtake.
    pub(crate) reorder_percent: Option<Drawn>,
    /// How long each is on its way.
    pub(crate) delay_ms: Option<Drawn>,
    /// And up to so much longer.
    pub(crate) jitter_ms: Option<Drawn>,
}

/// The kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FaultKind {
    /// `kill -9`; it starts again at the end.
    Kill,
    /// SIGSTOP; SIGCONT at the end.
    Stop,
    /// Cut off from all other processes, but not from the tester.
    Cut,
    /// Packets between all processes are lost, repeated, late.
    Weather,
    /// The wall clock jumps; at the end back.
    ClockStep,
    /// All clocks run fast or slow from the next start on.
    ClockDrift,
    /// No room is left.
    DiskFull,
    /// Every sync fails: the node ends, and starts again at the end.
    SyncFails,
    /// Every sync takes long.
    SlowDisk,
    /// Killed, and what it had written to its log and not synced is lost.
    PowerLoss,
    /// Killed, a bit of its log flipped, started: it must refuse. At the end it joins as a new node.
    FlipByte,
    /// Killed, and started with an empty directory at the end.
    Replace,
    /// Every node stopped in order and started again, one after the other.
    RollingRestart,
    /// Other numbers in the rules; at the end the first ones.
    PushRules,
    /// Requests with ever new keys in a domain of their own.
    Flood,
    /// Garbage, forged and repeated datagrams at every node's door for gossip.
    GossipAttack,
}

impl FaultKind {
    /// As scenarios and histories name it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Cut => "cut",
            Self::Weather => "weather",
            Self::ClockStep => "clock-step",
            Self::ClockDrift => "clock-drift",
            Self::DiskFull => "disk-full",
            Self::SyncFails => "sync-fails",
            Self::SlowDisk => "slow-disk",
            Self::PowerLoss => "power-loss",
            Self::FlipByte => "flip-byte",
            Self::Replace => "replace",
            Self::RollingRestart => "rolling-restart",
            Self::PushRules => "push-rules",
            Self::Flood => "flood",
            Self::GossipAttack => "gossip-attack",
        }
    }

    /// What it takes.
    pub(crate) const fn need(self) -> Option<Need> {
        match self {
            Self::Weather | Self::GossipAttack => Some(Need::Namespaces),
            Self::ClockStep | Self::ClockDrift => Some(Need::Faketime),
            Self::DiskFull => Some(Need::Mount),
            Self::SyncFails | Self::SlowDisk | Self::PowerLoss => Some(Need::Cc),
            Self::Kill
            | Self::Stop
            | Self::Cut
            | Self::FlipByte
            | Self::Replace
            | Self::RollingRestart
            | Self::PushRules
            | Self::Flood => None,
        }
    }

    /// Whether it is done to somebody.
    pub(crate) const fn has_target(self) -> bool {
        match self {
            Self::Weather | Self::RollingRestart | Self::PushRules | Self::Flood | Self::GossipAttack => {
                false
            }
            Self::Kill
            | Self::Stop
            | Self::Cut
            | Self::ClockStep
            | Self::ClockDrift
            | Self::DiskFull
            | Self::SyncFails
            | Self::SlowDisk
            | Self::PowerLoss
            | Self::FlipByte
            | Self::Replace => true,
        }
    }

    /// Whether it can be done to edges too.
    pub(crate) const fn suits_edges(self) -> bool {
        matches!(self, Self::Kill | Self::Stop | Self::Cut)
    }

    /// Whether only its beginning counts: it ends by itself.
    pub(crate) const fn ends_by_itself(self) -> bool {
        matches!(self, Self::RollingRestart)
    }
}

/// To whom something is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Who leads the first counter of the first load.
    Leader,
    /// A node that doesn't.
    Follower,
    /// Any node.
    Node,
    /// That one.
    ThisNode(usize),
    AllNodes,
    /// Any edge.
    Edge,
    AllEdges,
    /// All that is in it.
    Region(String),
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let numbered = || text.strip_prefix("node-")?.parse().ok().map(Self::ThisNode);
        let region = || text.strip_prefix("region-").map(|region| Self::Region(region.to_owned()));
        match text.as_str() {
            "leader" => Some(Self::Leader),
            "follower" => Some(Self::Follower),
            "node" => Some(Self::Node),
            "all-nodes" => Some(Self::AllNodes),
            "edge" => Some(Self::Edge),
            "all-edges" => Some(Self::AllEdges),
            _ => numbered().or_else(region),
        }
        .ok_or_else(|| {
            serde::de::Error::custom(format!(
                "{text:?} is nobody: leader, follower, node, node-0, all-nodes, edge, all-edges or region-NAME"
            ))
        })
    }
}

impl Target {
    /// Whether it may name edges alone.
    pub(crate) const fn is_edges(&self) -> bool {
        matches!(self, Self::Edge | Self::AllEdges)
    }
}

/// Which direction is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OneWay {
    /// The target hears nobody.
    In,
    /// Nobody hears the target.
    Out,
}

/// A number, or two between which one is drawn.
#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a number, or [least, most]")]
pub(crate) enum Drawn {
    /// This one.
    Whole(i64),
    /// This one.
    Exact(f64),
    /// One of these.
    Between([f64; 2]),
}

impl Drawn {
    /// The least and the most.
    #[expect(clippy::cast_precision_loss, reason = "a scenario's numbers are small")]
    pub(crate) const fn bounds(self) -> (f64, f64) {
        match self {
            Self::Whole(number) => (number as f64, number as f64),
            Self::Exact(number) => (number, number),
            Self::Between([least, most]) => (least, most),
        }
    }

    /// One of them.
    pub(crate) fn draw(self, chance: &mut impl Rng) -> f64 {
        let (least, most) = self.bounds();
        if least < most { chance.random_range(least..=most) } else { least }
    }

    /// The same in seconds.
    pub(crate) fn draw_seconds(self, chance: &mut impl Rng) -> Duration {
        Duration::from_secs_f64(self.draw(chance).max(0.0))
    }

    /// The same as a whole number that isn't negative.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from f64 `as` saturates, and a scenario's numbers are small"
    )]
    pub(crate) fn draw_whole(self, chance: &mut impl Rng) -> u64 {
        self.draw(chance).round() as u64
    }
}

impl fmt::Debug for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = self.bounds();
        if least < most { write!(f, "{least}..{most}") } else { write!(f, "{least}") }
    }
}
