//! What a stranger, a listener on the network and a bad holder of the key can do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chitchat::transport::UdpTransport;
use chitchat::{ChitchatConfig, ChitchatId, FailureDetectorConfig};
use leasehold_gossip::{Boot, Gossip, GossipConfig, Members, NONCE_LEN, Opener, Reason, Sealer};
use leasehold_model::NodeId;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::net::UdpSocket;

use crate::support::{config, ring, start, turn, until, until_live};

const SEED: u64 = 20_260_211;

/// Three nodes of which the second also asks a stranger, who so gets to hold genuine datagrams.
struct Scene {
    nodes: Vec<Gossip>,
    stranger: UdpSocket,
    before: Vec<Arc<Members>>,
}

impl Scene {
    async fn set() -> Self {
        let stranger = UdpSocket::bind("127.0.0.2:0").await.unwrap();
        let mut nodes = start(1).await;
        let seeds = [nodes[0].local_address(), stranger.local_addr().unwrap()];
        nodes.push(Gossip::start(config(2, &seeds)).await.unwrap());
        nodes.push(Gossip::start(config(3, &seeds[..1])).await.unwrap());
        until_live(&nodes, &[1, 2, 3]).await;
        let before = nodes.iter().map(Gossip::members).collect();
        Self { nodes, stranger, before }
    }

    async fn recorded(&self, count: usize) -> Vec<Vec<u8>> {
        let mut recorded = Vec::new();
        let mut buffer = vec![0; 65_536];
        while recorded.len() < count {
            let (len, _) = self.stranger.recv_from(&mut buffer).await.unwrap();
            recorded.push(buffer[..len].to_vec());
        }
        recorded
    }

    /// Sends to every node, at a pace that a socket's buffer bears.
    async fn send(&self, datagrams: impl IntoIterator<Item = Vec<u8>>) {
        for (number, datagram) in datagrams.into_iter().enumerate() {
            for node in &self.nodes {
                let _ = self.stranger.send_to(&datagram, node.local_address()).await;
            }
            if number % 10 == 9 {
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        }
    }

    fn dropped(&self, reason: Reason) -> u64 {
        self.nodes.iter().map(|node| node.counts().dropped_for(reason)).sum()
    }

    /// Nobody died, joined or tells anything else, and no task had to be started again.
    fn nothing_changed(&self) {
        for (node, before) in self.nodes.iter().zip(&self.before) {
            assert_eq!(node.members(), *before);
            assert!(node.healthy());
            assert_eq!(node.counts().restarts, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_changes_nothing() {
    let _turn = turn().await;
    let scene = Scene::set().await;
    let mut rng = StdRng::seed_from_u64(SEED);
    let garbage = (0..3_000).map(|number: u32| {
        let mut bytes = vec![0; rng.random_range(0..1_500)];
        rng.fill(bytes.as_mut_slice());
        // Half of it looks like a sealed datagram at first glance.
        if let (0, Some(first)) = (number % 2, bytes.first_mut()) {
            *first = 1;
        }
        bytes
    });
    let garbage: Vec<Vec<u8>> = garbage.collect();
    scene.send(garbage).await;
    scene.nothing_changed();
    let forged = scene.dropped(Reason::Forged);
    println!(
        "garbage: {forged} looked sealed, {} of another version, {} too short, {} over budget",
        scene.dropped(Reason::Version),
        scene.dropped(Reason::Short),
        scene.dropped(Reason::Budget)
    );
    assert!(forged > 1_500, "seed {SEED}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replayed_flipped_and_cut_datagrams_change_nothing() {
    let _turn = turn().await;
    let scene = Scene::set().await;
    let recorded = scene.recorded(2).await;
    let mut rng = StdRng::seed_from_u64(SEED);
    let heard = scene.dropped(Reason::Replayed) + scene.dropped(Reason::Echo);
    scene.send((0..300).map(|number| recorded[number % 2].clone())).await;
    let flipped = (0..1_000).map(|_| {
        let mut datagram = recorded[0].clone();
        let at = rng.random_range(0..datagram.len());
        datagram[at] ^= 1 << rng.random_range(0..8);
        datagram
    });
    let flipped: Vec<Vec<u8>> = flipped.collect();
    scene.send(flipped).await;
    scene.send((0..recorded[0].len()).map(|len| recorded[0][..len].to_vec())).await;
    until("they have been read", || scene.dropped(Reason::Forged) > 2_900).await;
    scene.nothing_changed();
    let refused = scene.dropped(Reason::Replayed) + scene.dropped(Reason::Echo) - heard;
    assert!((890..=900).contains(&refused), "each is heard at most once by each: {refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chitchat_without_the_key_hears_and_changes_nothing() {
    let _turn = turn().await;
    let scene = Scene::set().await;
    let own: SocketAddr = UdpSocket::bind("127.0.0.3:0").await.unwrap().local_addr().unwrap();
    let plain = ChitchatConfig {
        // In the name of a member, which is how a stranger would try to speak for it.
        chitchat_id: ChitchatId::new("1", 99, own),
        cluster_id: "main".to_owned(),
        gossip_interval: Duration::from_millis(10),
        listen_addr: own,
        seed_nodes: scene.nodes.iter().map(|node| node.local_address().to_string()).collect(),
        failure_detector_config: FailureDetectorConfig::default(),
        marked_for_deletion_grace_period: Duration::from_secs(60),
        catchup_callback: None,
        extra_liveness_predicate: None,
    };
    let values = vec![("p".to_owned(), "6.6.6.6:666".to_owned())];
    let plain = chitchat::spawn_chitchat(plain, values, &UdpTransport).await.unwrap();
    until("it knocked", || scene.dropped(Reason::Short) + scene.dropped(Reason::Version) > 50).await;
    assert_eq!(plain.with_chitchat(|chitchat| chitchat.node_states().len()).await, 1);
    scene.nothing_changed();
    plain.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_of_the_key_cannot_make_a_task_panic() {
    static PANICS: AtomicU64 = AtomicU64::new(0);
    let _turn = turn().await;
    let scene = Scene::set().await;
    let keys = ring(1, None);
    let recorded = scene.recorded(1).await;
    let genuine = Opener::default().open(&keys, &recorded[0]).unwrap().message;
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut sealer = Sealer::new(NodeId(900), Boot(1));
    let damaged = (0..1_000).map(|number: usize| {
        let mut message = if number.is_multiple_of(2) {
            last_words(scene.nodes[1].local_address())
        } else {
            genuine.clone()
        };
        for _ in 0..number.min(rng.random_range(1..4)) {
            let at = rng.random_range(3..message.len());
            message[at] = rng.random();
        }
        let mut nonce = [0; NONCE_LEN];
        rng.fill(&mut nonce);
        sealer.seal(&keys, nonce, &message).unwrap()
    });
    let damaged: Vec<Vec<u8>> = damaged.collect();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {
        PANICS.fetch_add(1, Ordering::Relaxed);
    }));
    scene.send(damaged).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    std::panic::set_hook(hook);
    let malformed = scene.dropped(Reason::Malformed);
    println!("a bad holder of the key: {malformed} malformed of 3000, the others taken in");
    assert!(malformed > 1_000, "seed {SEED}");
    assert_eq!(PANICS.load(Ordering::Relaxed), 0, "seed {SEED}");
    // It may invent more nodes than are kept, after which gossip starts afresh; but it does start.
    until("all are healthy", || scene.nodes.iter().all(Gossip::healthy)).await;
}

/// A message that meets an assertion in chitchat: of node 2, which is at this address, a value of a version far ahead,
/// then a bare version that is less far ahead.
fn last_words(address: SocketAddr) -> Vec<u8> {
    let mut operations = vec![0, 1, 0, b'2'];
    operations.extend(1_u64.to_le_bytes());
    operations.extend([4, 127, 0, 0, 1]);
    operations.extend(address.port().to_le_bytes());
    operations.extend([0; 16]);
    operations.extend([1, 1, 0, b'k', 1, 0, b'v']);
    operations.extend(1_000_000_u64.to_le_bytes());
    operations.extend([0, 2]);
    operations.extend(500_000_u64.to_le_bytes());
    let mut message = 45_139_u16.to_le_bytes().to_vec();
    message.extend([0, 2, 2]);
    message.extend(u16::try_from(operations.len()).unwrap().to_le_bytes());
    message.extend(operations);
    message.push(0);
    message
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_with_one_id_do_not_take_each_other_for_themselves() {
    let _turn = turn().await;
    let first = start(1).await;
    let twin = GossipConfig { boot: Boot(2), ..config(1, &[first[0].local_address()]) };
    let twin = Gossip::start(twin).await.unwrap();
    until("the twin knocked", || first[0].counts().dropped_for(Reason::Echo) > 3).await;
    assert_eq!(first[0].members().get(NodeId(1)).unwrap().boot, Boot(1));
    drop(twin);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_told_of_more_nodes_than_it_keeps_starts_afresh_and_finds_the_real_ones() {
    let _turn = turn().await;
    let nodes = start(3).await;
    until_live(&nodes, &[1, 2, 3]).await;
    let liar = UdpSocket::bind("127.0.0.2:0").await.unwrap();
    let mut sealer = Sealer::new(NodeId(900), Boot(1));
    for first in [1_000, 2_000] {
        let datagram = sealer.seal(&ring(1, None), [3; NONCE_LEN], &invented(first, 200)).unwrap();
        liar.send_to(&datagram, nodes[0].local_address()).await.unwrap();
    }
    until("it starts afresh", || nodes[0].counts().restarts == 1).await;
    until("it is healthy", || nodes[0].healthy()).await;
    until_live(&nodes, &[1, 2, 3]).await;
    assert!(nodes.iter().all(|node| node.members().len() == 3));
}

/// A message that names `count` nodes which nobody has heard of.
fn invented(first: u16, count: u16) -> Vec<u8> {
    let mut message = 45_139_u16.to_le_bytes().to_vec();
    message.extend([0, 0]);
    message.extend(count.to_le_bytes());
    for number in first..first + count {
        message.extend([4, 0]);
        message.extend(format!("{number:04x}").bytes());
        message.extend(1_u64.to_le_bytes());
        message.extend([4, 127, 0, 0, 1, 0, 80]);
        message.extend([1_u64, 0, 0].into_iter().flat_map(u64::to_le_bytes));
    }
    message.extend([4, 0]);
    message.extend(b"main");
    message
}
