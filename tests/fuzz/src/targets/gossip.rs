//! What anybody may send to a gossip port, and what holders of the cluster's key may say there.

use leasehold_gossip::{Boot, Key, KeyRing, NONCE_LEN, Opener, Sealer, inspect};
use leasehold_model::NodeId;

use super::Target;

/// A datagram as it arrives: most are not sealed with the key.
pub(super) const DATAGRAM: Target = Target { name: "gossip-datagram", run: open, seeds: sealed };

/// A message that was sealed with the key.
pub(super) const MESSAGE: Target = Target { name: "gossip-message", run: inspect_any, seeds: messages };

fn ring() -> KeyRing {
    KeyRing::new("fuzz", &Key::from_bytes([7; 32]), None)
}

fn open(bytes: &[u8]) {
    if let Ok(opened) = Opener::default().open(&ring(), bytes) {
        inspect_any(&opened.message);
    }
}

fn inspect_any(bytes: &[u8]) {
    // Whether it is one doesn't matter here.
    let _ = inspect(bytes);
}

fn sealed() -> Vec<Vec<u8>> {
    let mut sealer = Sealer::new(NodeId(3), Boot(1));
    let seal = |message: Vec<u8>| {
        sealer.seal(&ring(), [9; NONCE_LEN], &message).expect("a seed is short and one of few")
    };
    messages().into_iter().map(seal).collect()
}

/// By hand: `magic 2 | version 1 | type 1`, an empty digest, a name or an empty delta.
fn messages() -> Vec<Vec<u8>> {
    let head = |kind| [&45_139_u16.to_le_bytes()[..], &[0, kind]].concat();
    let empty_digest = [0, 0];
    let name = [4, 0, b'f', b'u', b'z', b'z'];
    vec![
        [&head(0)[..], &empty_digest, &name].concat(),
        [&head(1)[..], &empty_digest, &[0]].concat(),
        [&head(2)[..], &[0]].concat(),
        [&head(2)[..], &[2, 1, 0, 0, 0]].concat(),
        head(3),
    ]
}
