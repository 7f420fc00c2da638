//! A node whose disk is full, on a small file system of its own.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use leasehold_control::{Command as ControlCommand, Reply, RulesChange};
use leasehold_model::ShardId;
use tokio::time::Instant;

use super::support::{healthy, member, spots, start_all, stop_all, turn, until};
use crate::Cluster;

/// A file system of 64 MiB, unmounted at the end: room for two log segments and a little.
struct Small(PathBuf);

impl Small {
    /// `None` after having said that the test is skipped.
    fn mount(at: &Path) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(at).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(at.to_owned()));
        }
        let required = std::env::var("LEASEHOLD_REQUIRE").unwrap_or_default();
        assert!(
            !required.split(',').any(|name| name.trim() == "mount"),
            "LEASEHOLD_REQUIRE={required}, but mount can't be used"
        );
        // Past the harness, which hides what a passing test prints.
        let _ = writeln!(std::io::stderr(), "skipped: needs mount");
        None
    }

    /// Takes all the room that is left.
    fn fill(&self) {
        let mut ballast = File::create(self.ballast()).unwrap();
        let block = vec![1; 64 << 10];
        while ballast.write_all(&block).is_ok() {}
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// Changes rules through a node: some 60 kB of log.
async fn change(node: &Cluster, round: usize) {
    let text = format!("domain: extra # {round} {}\n", "x".repeat(60_000));
    let change =
        RulesChange { domain: "extra".into(), text: Some(text.into()), expected: None, by: "a test".into() };
    let deadline = Instant::now() + Duration::from_secs(10);
    let reply = node.command(ControlCommand::Rules(change), deadline).await.unwrap();
    assert!(matches!(reply, Reply::Rules(_)), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_disk_is_full_leaves_service_and_leads_again_when_there_is_room() {
    let _turn = turn().await;
    let mut spots = spots(3, 0);
    // It wants to write snapshots too, and keeps little log behind them.
    (spots[2].config.snapshot_every, spots[2].config.keep_entries) = (20, 10);
    let Some(small) = Small::mount(&spots[2].config.data) else { return };
    let nodes = start_all(&spots).await;
    healthy(&nodes).await;
    small.fill();
    let mut round = 0;
    let is_full = || nodes[2].health().is_err_and(|why| why.starts_with("the disk is full"));
    while !is_full() {
        assert!(round < 2_000, "the disk never was full: {:?}", nodes[2].health());
        change(&nodes[0], round).await;
        round += 1;
    }
    // The others go on without it.
    for _ in 0..20 {
        change(&nodes[0], round).await;
        round += 1;
    }
    assert!(nodes[0].health().is_ok() && nodes[1].health().is_ok());
    std::fs::remove_file(small.ballast()).unwrap();
    until("it is back", async || nodes[2].health().is_ok()).await;
    let latest = format!("domain: extra # {} ", round - 1);
    member(&nodes[2], "what it has missed", |control| {
        control.rules().get("extra").is_some_and(|rules| rules.text.starts_with(&latest))
    })
    .await;
    for shard in (0..spots[2].config.shards).map(ShardId) {
        until("it leads again", async || nodes[0].move_leader(shard, nodes[2].node()).await.is_ok()).await;
    }
    assert_eq!(spots[2].fatal(), None);
    stop_all(&nodes).await;
}
