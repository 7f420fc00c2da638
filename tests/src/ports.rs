//! Ports for servers that are configured before they run, and that stop and come back: nobody else may get one, neither
//! before its server is up nor while that is down.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// The first port that is given away; Linux gives those from 32768 on to outgoing connections and to who asks for any.
const FIRST: u16 = 10_240;
/// As many there are.
const COUNT: u16 = 22_000;

/// A port that is free for TCP and UDP and stays so: on an address of the loopback that belongs to this process.
///
/// # Panics
/// When a test process has used up all of them.
#[must_use]
pub fn own_port() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let step = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(step < COUNT, "a test process has {COUNT} ports");
    (own_address(), FIRST + step).into()
}

/// The whole of 127.0.0.0/8 is loopback (Linux). Process ids have 22 bits; the lowest addresses are left to others.
fn own_address() -> Ipv4Addr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 0x40 | (high & 0x3f), middle, low)
}

/// A port of 127.0.0.1, for programs whose example configuration names that. It is free for TCP and UDP, and outgoing
/// connections never get it.
///
/// # Panics
/// When the system has no free port there.
#[must_use]
pub fn localhost_port() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test processes that run at once begin at different places.
    let begin = u16::try_from(std::process::id() % 1_000).expect("below 1000") * 22;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + begin.wrapping_add(step) % COUNT;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port of {FIRST}..{} is free", FIRST + COUNT);
}
