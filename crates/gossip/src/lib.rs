//! Who is there, as far as anybody heard: a hint, never an authority.
//!
//! Nodes tell each other their addresses, zone, load, rules version and which groups they lead, and notice within a
//! second or two when one falls silent. Everything here may be late, wrong, split or attacked: no grant, vote or
//! placement may follow from it. It only says whom to ask first.
//!
//! Invariant: a datagram is opened with the cluster's key before anything decodes it, then checked for all that
//! chitchat (which does the spreading, and which no other crate knows) would trip over. What does not pass is dropped
//! and counted; it changes nothing, and nothing that arrives can end the process.
//!
//! With the usual interval of 200 ms, on a machine with two busy cores: three nodes find each other in 0.6 to 0.8 s, a
//! death is first seen after 1.4 to 1.7 s and by all after 1.5 to 1.9 s; twenty nodes need 1.0 to 1.9 s, 1.4 to 1.9 s
//! and 2.0 to 2.5 s. The tests print these times. Twenty is the largest number tested. A node that gets no processor
//! for a second looks dead for as long; where all are starved, who is live flickers.
//!
//! Sealing, budget, message checks, state encoding and the members' table are functions of their arguments;
//! [`Gossip`] is the shell around them.

mod budget;
mod config;
mod counters;
mod gossip;
mod members;
mod message;
mod seal;
mod seeds;
mod state;
mod transport;

pub use config::{GossipConfig, StartError};
pub use counters::{Counters, Counts, Reason};
pub use gossip::Gossip;
pub use members::{Change, Liveness, MEMBERS_MAX, Member, Members};
pub use message::{DELTA_INFLATED_MAX, IDS_MAX};
pub use seal::{Boot, KEY_LEN, Key, KeyRing, NONCE_LEN, OVERHEAD, Opened, Opener, PLAIN_MAX, SENDERS_MAX};
pub use seal::{SealError, Sealer};
pub use state::{FieldError, GROUPS_MAX, HINTS_MAX, LeaderHint, Load, Profile};
pub use transport::inspect;
