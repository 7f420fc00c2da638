//! A task that dies under the supervisor's eyes, and settings that are refused.

use std::time::Duration;

use async_trait::async_trait;
use chitchat::ChitchatMessage;
use chitchat::transport::Socket;
use tokio::sync::mpsc;

use super::*;
use crate::counters::Reason;
use crate::seal::{Boot, KEY_LEN, Key};

#[derive(Clone, Copy, Debug)]
enum Failure {
    Error,
    Panic,
}

/// A transport whose socket fails when told.
struct Flaky {
    inner: SealedTransport,
    told: Arc<tokio::sync::Mutex<mpsc::Receiver<Failure>>>,
}

struct FlakySocket {
    inner: Box<dyn Socket>,
    told: Arc<tokio::sync::Mutex<mpsc::Receiver<Failure>>>,
}

#[async_trait]
impl Transport for Flaky {
    async fn open(&self, listen: SocketAddr) -> anyhow::Result<Box<dyn Socket>> {
        Ok(Box::new(FlakySocket { inner: self.inner.open(listen).await?, told: Arc::clone(&self.told) }))
    }
}

#[async_trait]
impl Socket for FlakySocket {
    async fn send(&mut self, to: SocketAddr, message: ChitchatMessage) -> anyhow::Result<()> {
        self.inner.send(to, message).await
    }

    async fn recv(&mut self) -> anyhow::Result<(SocketAddr, ChitchatMessage)> {
        let mut told = self.told.lock().await;
        tokio::select! {
            received = self.inner.recv() => received,
            Some(failure) = told.recv() => match failure {
                Failure::Error => anyhow::bail!("the socket broke"),
                Failure::Panic => panic!("the task was made to panic"),
            },
        }
    }
}

fn config(id: u64, seeds: Vec<String>) -> GossipConfig {
    let address = format!("127.0.0.1:{}", 7_000 + id);
    GossipConfig {
        id: NodeId(id),
        boot: Boot(1),
        listen: ([127, 0, 0, 1], 0).into(),
        advertise: None,
        seeds,
        keys: KeyRing::new("main", &Key::from_bytes([1; KEY_LEN]), None),
        profile: Profile {
            name: format!("n{id}").into(),
            peer_address: address.clone().into(),
            client_address: address.into(),
            ..Profile::default()
        },
        interval: Duration::from_millis(50),
    }
}

async fn flaky(config: GossipConfig) -> (Gossip, mpsc::Sender<Failure>) {
    let counters = Arc::new(Counters::default());
    let keys = config.keys.clone();
    let socket = UdpSocket::bind(config.listen).await.unwrap();
    let address = socket.local_addr().unwrap();
    let wire = Wire::new(config.id, config.boot, socket, keys, Arc::clone(&counters));
    let (wire, (tell, told)) = (Arc::new(wire), mpsc::channel(1));
    let transport =
        Flaky { inner: SealedTransport(Arc::clone(&wire)), told: Arc::new(tokio::sync::Mutex::new(told)) };
    (Gossip::run(config, address, wire, Box::new(transport), counters), tell)
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("never: {what}");
}

fn live(gossip: &Gossip) -> usize {
    gossip.members().live().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gossip_task_that_dies_is_started_again_and_is_unhealthy_meanwhile() {
    let steady = Gossip::start(config(1, Vec::new())).await.unwrap();
    let (restarted, tell) = flaky(config(2, vec![steady.local_address().to_string()])).await;
    until("both hear each other", || live(&steady) == 2 && live(&restarted) == 2).await;
    for (round, failure) in [Failure::Error, Failure::Panic].into_iter().enumerate() {
        let boot = Boot(2 + u64::try_from(round).unwrap());
        tell.send(failure).await.unwrap();
        until("unhealthy", || !restarted.healthy()).await;
        assert_eq!(live(&restarted), 2, "keeps what it knew");
        until("healthy again", || restarted.healthy()).await;
        until("heard again", || {
            steady.members().get(NodeId(2)).is_some_and(|it| it.boot == boot && it.is_live())
        })
        .await;
        until("hears again", || live(&restarted) == 2).await;
    }
    assert_eq!((restarted.counts().restarts, steady.counts().restarts), (2, 0));
    assert_eq!(steady.counts().dropped_for(Reason::Replayed), 0, "the count of datagrams went on");
    restarted.shutdown().await;
    until("the goodbye is heard", || live(&steady) == 1).await;
}

#[tokio::test]
async fn a_wrong_setting_is_named_before_a_port_is_opened() {
    type Break = fn(&mut GossipConfig);
    let breaks: [(&str, Break); 7] = [
        ("cluster", |config| config.keys = KeyRing::new("", &Key::from_bytes([1; KEY_LEN]), None)),
        ("seeds", |config| config.seeds = vec!["host".to_owned()]),
        ("seeds", |config| config.seeds = vec!["host:1".to_owned(); 65]),
        ("interval", |config| config.interval = Duration::ZERO),
        ("advertise", |config| config.listen = ([0, 0, 0, 0], 0).into()),
        ("advertise", |config| config.advertise = Some(([0, 0, 0, 0], 1).into())),
        ("name", |config| config.profile.name = "a\n".into()),
    ];
    for (expected, break_it) in breaks {
        let mut config = config(1, Vec::new());
        break_it(&mut config);
        match Gossip::start(config).await {
            Err(StartError::Field(error)) => assert_eq!(error.field, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_port_in_use_is_an_error_that_names_it() {
    let first = Gossip::start(config(1, Vec::new())).await.unwrap();
    let second = GossipConfig { listen: first.local_address(), ..config(2, Vec::new()) };
    let error = Gossip::start(second).await.unwrap_err();
    assert!(error.to_string().contains(&first.local_address().to_string()), "{error}");
}
