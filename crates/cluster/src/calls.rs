//! The kinds of calls that nodes make to each other beside Raft's own. Their messages are in `wire::peer`.

use leasehold_consensus::transport::Kind;

/// A node without a cluster asks a seed what it knows. Open to strangers.
pub(crate) const FORM: Kind = Kind::app(1);
/// A founding is offered to a founder. Open to strangers.
pub(crate) const FOUND: Kind = Kind::app(2);
/// A node asks to join. Open to strangers.
pub(crate) const JOIN: Kind = Kind::app(3);
/// A command for the control group.
pub(crate) const COMMAND: Kind = Kind::app(4);
/// Commands for a shard that the receiver leads.
pub(crate) const ASK: Kind = Kind::app(5);
/// What an acquire would be answered.
pub(crate) const PREVIEW: Kind = Kind::app(6);
/// How the receiver's replicas stand.
pub(crate) const STATUS: Kind = Kind::app(7);
/// A change of a group's members or leader, by its leader.
pub(crate) const CHANGE: Kind = Kind::app(8);
/// What is out on leases of the shards that the receiver leads.
pub(crate) const LEASES: Kind = Kind::app(9);
/// Who edges are that are connected to the receiver.
pub(crate) const EDGE_NAMES: Kind = Kind::app(10);
/// Which keys the receiver is asked for most often.
pub(crate) const TOP_KEYS: Kind = Kind::app(11);
