//! The targets, by where their bytes come from.

mod gossip;
mod peers;
mod requests;
mod storage;

/// A decoder.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// As its folder of inputs is called.
    pub name: &'static str,
    /// Decodes, and goes on with what is sound.
    pub run: fn(&[u8]),
    /// Inputs that are right, to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: [Target; 12] = [
    gossip::DATAGRAM,
    gossip::MESSAGE,
    peers::FRAMES,
    peers::MESSAGES,
    peers::LEASES,
    requests::RLS,
    requests::HTTP,
    requests::RULES,
    storage::LOG,
    storage::ENTRY,
    storage::CONTROL,
    storage::SNAPSHOT,
];
