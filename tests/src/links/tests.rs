//! The proxy between this process and itself, and between processes.

use std::process::Command;

use super::*;
use crate::clock::Deadline;
use crate::process::Process;
use crate::require;

/// A server that answers every byte with the same one.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind(own_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reads, mut writes) = stream.split();
                let _ = tokio::io::copy(&mut reads, &mut writes).await;
            });
        }
    });
    address
}

/// This process stands for node 0, whose door nobody uses, and asks node 1.
async fn pair() -> (Links, TcpStream) {
    let mut links = Links::new();
    links.add(own_port()).await;
    let address = links.add(echo().await).await;
    links.set_process(0, Some(std::process::id()));
    let stream = TcpStream::connect(address).await.unwrap();
    (links, stream)
}

/// Fails when a byte doesn't come back.
async fn check_answered(stream: &mut TcpStream) {
    assert!(answered(stream, Duration::from_secs(10)).await, "no answer");
}

/// Fails when a byte comes back soon.
async fn check_unanswered(stream: &mut TcpStream) {
    assert!(!answered(stream, Duration::from_millis(200)).await, "an answer");
}

async fn answered(stream: &mut TcpStream, within: Duration) -> bool {
    let mut byte = [7];
    stream.write_all(&byte).await.unwrap();
    tokio::time::timeout(within, stream.read_exact(&mut byte)).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_cut_waits_until_it_is_healed() {
    let cuts: [fn(&Links); 4] = [
        |links| links.cut(0, 1),
        |links| links.cut_one_way(0, 1),
        |links| links.cut_one_way(1, 0),
        |links| links.isolate(&[1]),
    ];
    for cut in cuts {
        let (links, mut stream) = pair().await;
        check_answered(&mut stream).await;
        cut(&links);
        check_unanswered(&mut stream).await;
        links.heal();
        let mut late = [0];
        let read = tokio::time::timeout(Duration::from_secs(5), stream.read_exact(&mut late)).await;
        assert_eq!((read.unwrap().unwrap(), late), (1, [7]), "what waited arrives");
        check_answered(&mut stream).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_dropped_while_it_is_cut_is_lost_and_other_connections_are_not() {
    let (links, mut stream) = pair().await;
    check_answered(&mut stream).await;
    links.drop_cut();
    check_answered(&mut stream).await;
    links.cut(0, 1);
    check_unanswered(&mut stream).await;
    links.drop_cut();
    let mut late = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut late)).await;
    assert!(read.is_ok() && late.is_empty(), "{read:?}, {late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_between_others_concerns_nobody_else() {
    let (mut links, mut stream) = pair().await;
    links.add(own_port()).await;
    links.cut(0, 2);
    links.cut(1, 2);
    links.isolate(&[2]);
    check_answered(&mut stream).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_of_another_process_is_told_from_this_one() {
    let Some(bash) = require("bash") else { return };
    let mut links = Links::new();
    links.add(own_port()).await;
    let address = links.add(echo().await).await;
    let script = format!(
        "exec 3<>/dev/tcp/{}/{}; while echo x >&3 && read -r line <&3; do echo $line; sleep 0.02; done",
        address.ip(),
        address.port()
    );
    let mut other = Process::spawn("caller", Command::new(bash).args(["-c", &script]));
    links.set_process(0, Some(other.id()));
    other.wait_for_text("x\n", Duration::from_secs(10));
    let mut stream = TcpStream::connect(address).await.unwrap();
    links.cut(0, 1);
    // This process is no node.
    check_answered(&mut stream).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let printed = other.printed().len();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(other.printed().len(), printed, "the other one waits");
    links.heal();
    let deadline = Deadline::after(Duration::from_secs(10));
    while other.printed().len() == printed {
        assert!(!deadline.passed(), "and goes on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
