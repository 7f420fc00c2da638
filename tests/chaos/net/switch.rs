//! A network in user space: each process in a namespace of its own with one device, and every packet between them passes
//! through here, where it may be lost, held back, repeated or cut off, as a seed decides.
//!
//! Packets are looked at as far as the addresses. Nothing leaves the namespaces: what is for nobody here is dropped. The kernel
//! takes everything away with the harness: devices go with their files, namespaces with the processes that hold them.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use leasehold_tests::{Deadline, Process, Seat};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;
use tokio_tun::Tun;

use super::{Place, Way};

/// Longer packets don't come out of a device.
const PACKET_BYTES_MAX: usize = 2_048;

/// A process that enters a namespace has done so by then.
const ENTERS_WITHIN: Duration = Duration::from_secs(10);

/// Datagrams that are kept to be sent again; the oldest make room.
const KEPT_MAX: usize = 512;

/// Packets that are held back at once. Beyond, they are lost, as in a full queue.
const HELD_MAX: usize = 20_000;

/// Ports of every process: each has an address of its own.
const CLIENTS: u16 = 7_600;
const PEERS: u16 = 7_601;
const ADMIN: u16 = 7_602;
pub(crate) const GOSSIP: u16 = 7_603;

const TESTER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const PREFIX: u8 = 16;

/// See the module.
#[derive(Debug)]
pub(crate) struct Switch {
    shared: Arc<Shared>,
    readers: JoinSet<()>,
    /// Each keeps a namespace alive.
    holders: Vec<Process>,
    seed: u64,
}

struct Shared {
    ports: RwLock<BTreeMap<Ipv4Addr, Port>>,
    ways: RwLock<BTreeMap<(Place, Place), Way>>,
    kept: Mutex<VecDeque<Vec<u8>>>,
    held: tokio::sync::Semaphore,
}

#[derive(Clone)]
struct Port {
    place: Place,
    device: Arc<Tun>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("ways", &self.ways).finish_non_exhaustive()
    }
}

impl Switch {
    /// With the tester's own device, in the namespace that this process is in.
    ///
    /// # Errors
    /// When the device can't be made.
    pub(crate) fn new(seed: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            ports: RwLock::default(),
            ways: RwLock::default(),
            kept: Mutex::default(),
            held: tokio::sync::Semaphore::new(HELD_MAX),
        });
        let mut switch = Self { shared, readers: JoinSet::new(), holders: Vec::new(), seed };
        let device = switch.device("lh0")?;
        run(Command::new("sh").args(["-c", &bring_up("lh0", TESTER)]))?;
        switch.plug(Place::Tester, TESTER, device);
        Ok(switch)
    }

    /// A namespace for one more process, on the network.
    ///
    /// # Errors
    /// When it can't be made.
    pub(crate) fn seat(&mut self, place: Place) -> io::Result<Seat> {
        let address = address(place);
        let holder =
            Process::spawn("namespace", Command::new("unshare").args(["--net", "sleep", "infinity"]));
        let namespace = format!("/proc/{}/ns/net", holder.id());
        let own = fs::read_link("/proc/self/ns/net")?;
        let entered = || fs::read_link(&namespace).ok().filter(|theirs| *theirs != own);
        if Deadline::after(ENTERS_WITHIN).poll(entered).is_none() {
            return Err(io::Error::other(format!("no namespace for {place:?}: {}", holder.printed())));
        }
        let name = format!("lh{}", self.holders.len() + 1);
        let device = self.device(&name)?;
        run(Command::new("ip").args(["link", "set", &name, "netns", &holder.id().to_string()]))?;
        let enter = format!("--net={namespace}");
        run(Command::new("nsenter").args([&enter, "sh", "-c", &bring_up(&name, address)]))?;
        self.plug(place, address, device);
        self.holders.push(holder);
        let at = |port| SocketAddr::from((address, port));
        Ok(Seat {
            clients: at(CLIENTS),
            admin: at(ADMIN),
            peers: at(PEERS),
            gossip: at(GOSSIP),
            enter: vec![OsString::from("nsenter"), OsString::from(enter)],
            ..Seat::own()
        })
    }

    /// Changes how packets fare from one place to another.
    pub(crate) fn change(&self, from: Place, to: Place, change: impl FnOnce(&mut Way)) {
        let mut ways = self.shared.ways.write().unwrap_or_else(PoisonError::into_inner);
        change(ways.entry((from, to)).or_default());
    }

    /// Changes every way that was ever changed.
    pub(crate) fn change_all(&self, change: impl Fn(&mut Way)) {
        self.shared.ways.write().unwrap_or_else(PoisonError::into_inner).values_mut().for_each(change);
    }

    /// For whoever wants to send what went by.
    pub(crate) fn forger(&self) -> Forger {
        Forger(Arc::clone(&self.shared))
    }

    fn device(&self, name: &str) -> io::Result<Arc<Tun>> {
        let built = Tun::builder().name(name).build().map_err(io::Error::other)?;
        built.into_iter().next().map(Arc::new).ok_or_else(|| io::Error::other("no device was made"))
    }

    fn plug(&mut self, place: Place, address: Ipv4Addr, device: Arc<Tun>) {
        let port = Port { place, device: Arc::clone(&device) };
        self.shared.ports.write().unwrap_or_else(PoisonError::into_inner).insert(address, port);
        let number = u64::try_from(self.readers.len()).unwrap_or_default();
        let chance = SmallRng::seed_from_u64(self.seed ^ number.rotate_right(8));
        self.readers.spawn(read(Arc::clone(&self.shared), place, device, chance));
    }
}

/// Sends packets in the names of others.
#[derive(Clone, Debug)]
pub(crate) struct Forger(Arc<Shared>);

impl Forger {
    /// Gossip that went by lately, as whole packets, the oldest first.
    pub(crate) fn kept(&self) -> Vec<Vec<u8>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Has a packet arrive at whom it is for, whoever says to have sent it.
    pub(crate) async fn inject(&self, packet: &[u8]) {
        if let Some(port) = destination(packet).and_then(|to| self.0.port(to)) {
            // A full device loses packets, as a network does.
            let _ = port.device.send(packet).await;
        }
    }
}

impl Shared {
    fn port(&self, address: Ipv4Addr) -> Option<Port> {
        self.ports.read().unwrap_or_else(PoisonError::into_inner).get(&address).cloned()
    }

    fn way(&self, from: Place, to: Place) -> Way {
        self.ways.read().unwrap_or_else(PoisonError::into_inner).get(&(from, to)).copied().unwrap_or_default()
    }

    fn keep(&self, packet: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(packet.to_owned());
    }
}

/// Takes packets from one device until the switch goes.
async fn read(shared: Arc<Shared>, from: Place, device: Arc<Tun>, mut chance: SmallRng) {
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    while let Ok(length) = device.recv(&mut buffer).await {
        let packet = &buffer[..length];
        let Some(to) = destination(packet).and_then(|to| shared.port(to)) else { continue };
        if is_gossip(packet) {
            shared.keep(packet);
        }
        let way = shared.way(from, to.place);
        for wait in fates(way, &mut chance) {
            if wait.is_zero() {
                let _ = to.device.send(packet).await;
            } else {
                hold(Arc::clone(&shared), to.clone(), packet.to_owned(), wait);
            }
        }
    }
}

/// How long each copy of a packet takes; none when it is lost.
fn fates(way: Way, chance: &mut SmallRng) -> Vec<Duration> {
    let mut hits = |percent: u8| percent > 0 && chance.random_range(0..100) < percent;
    if way.cut || hits(way.loss_percent) {
        return Vec::new();
    }
    let (copies, late) = (1 + usize::from(hits(way.duplicate_percent)), hits(way.reorder_percent));
    let jitter = u64::try_from(way.jitter.as_micros()).unwrap_or(u64::MAX);
    (0..copies)
        .map(|_| {
            let more = if jitter == 0 { 0 } else { chance.random_range(0..jitter) };
            let wait = way.delay + Duration::from_micros(more);
            if late { wait * 3 } else { wait }
        })
        .collect()
}

/// Has a packet arrive later.
fn hold(shared: Arc<Shared>, to: Port, packet: Vec<u8>, wait: Duration) {
    tokio::spawn(async move {
        let Ok(_held) = shared.held.try_acquire() else { return };
        tokio::time::sleep(wait).await;
        let _ = to.device.send(&packet).await;
    });
}

/// Whom a packet is for; `None` for what isn't IPv4.
fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    let header: &[u8; 20] = packet.first_chunk()?;
    (header[0] >> 4 == 4).then(|| Ipv4Addr::new(header[16], header[17], header[18], header[19]))
}

/// Where the payload of a datagram of gossip begins; `None` for everything else.
pub(crate) fn gossip_payload(packet: &[u8]) -> Option<usize> {
    const UDP: u8 = 17;
    const UDP_HEADER_BYTES: usize = 8;
    let header_bytes = usize::from(packet.first()? & 0x0f) * 4;
    let port = u16::from_be_bytes([*packet.get(header_bytes + 2)?, *packet.get(header_bytes + 3)?]);
    (packet.get(9) == Some(&UDP) && port == GOSSIP).then_some(header_bytes + UDP_HEADER_BYTES)
}

fn is_gossip(packet: &[u8]) -> bool {
    gossip_payload(packet).is_some()
}

fn address(place: Place) -> Ipv4Addr {
    let low = |place: usize| u8::try_from(place + 10).expect("a run has few processes");
    match place {
        Place::Tester => TESTER,
        Place::Node(node) => Ipv4Addr::new(10, 77, 1, low(node)),
        Place::Edge(edge) => Ipv4Addr::new(10, 77, 2, low(edge)),
    }
}

fn bring_up(device: &str, address: Ipv4Addr) -> String {
    format!("ip link set lo up && ip addr add {address}/{PREFIX} dev {device} && ip link set {device} up")
}

/// # Errors
/// When it can't be started, or says that it failed: with what it printed.
fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("{command:?}: {}", said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_is_cut_or_loses_all_delivers_nothing_and_one_without_faults_delivers_once_and_at_once() {
        let mut chance = SmallRng::seed_from_u64(1);
        assert_eq!(fates(Way::default(), &mut chance), [Duration::ZERO]);
        for way in [Way { cut: true, ..Way::default() }, Way { loss_percent: 100, ..Way::default() }] {
            assert_eq!(fates(way, &mut chance), []);
        }
    }

    #[test]
    fn the_same_seed_gives_packets_the_same_fates() {
        let way = Way {
            loss_percent: 10,
            duplicate_percent: 10,
            reorder_percent: 10,
            delay: Duration::from_millis(5),
            jitter: Duration::from_millis(5),
            ..Way::default()
        };
        let fates_of = |seed| {
            let mut chance = SmallRng::seed_from_u64(seed);
            (0..200).map(|_| fates(way, &mut chance)).collect::<Vec<_>>()
        };
        assert_eq!(fates_of(7), fates_of(7));
        assert_ne!(fates_of(7), fates_of(8));
        let all = fates_of(7);
        assert!(all.iter().any(Vec::is_empty) && all.iter().any(|copies| copies.len() == 2), "{all:?}");
    }

    #[test]
    fn gossip_is_known_by_its_port() {
        let mut packet = vec![0; 40];
        (packet[0], packet[9]) = (0x45, 17);
        packet[22..24].copy_from_slice(&GOSSIP.to_be_bytes());
        assert_eq!(gossip_payload(&packet), Some(28));
        packet[9] = 6;
        assert_eq!(gossip_payload(&packet), None);
    }
}
