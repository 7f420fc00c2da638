//! The real Envoy in front, configured by `deploy/edge`, asking the sidecar of `deploy/edge` over its socket.

use std::fs;
use std::process::Command;
use std::time::Duration;

use leasehold_tests::example::{example, replaced, with_addresses};
use leasehold_tests::{Http, Process, TestEdge, TestNode, Upstream, localhost_port, own_port, require};

const SOCKET: &str = "/run/leasehold/edge.sock";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_asks_the_sidecar_beside_it() {
    let Some(program) = require("envoy") else { return };
    let node = TestNode::start(&example("envoy/rules.yaml"));
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let socket = folder.path().join("edge.sock").display().to_string();
    let admin = own_port();

    let text = replaced(&example("edge/edge.yaml"), SOCKET, &socket);
    let nodes = "http://leasehold-0:7600, http://leasehold-1:7600, http://leasehold-2:7600";
    let text = replaced(&text, nodes, &format!("'http://{}'", node.clients));
    let text = replaced(&text, "0.0.0.0:7682", &format!("'{admin}'"));
    let config = folder.path().join("edge.yaml");
    fs::write(&config, text).expect("the temporary folder can be written to");
    let mut edge = TestEdge::spawn(&config);
    edge.wait_until_ready(admin, Duration::from_secs(30));

    let upstream = Upstream::start().await;
    let (ingress, operators) = (localhost_port(), localhost_port());
    let addresses =
        [("0.0.0.0:10000", ingress), ("127.0.0.1:9901", operators), ("127.0.0.1:8080", upstream.address)];
    let text = with_addresses(&example("edge/envoy.yaml"), ", port_value: ", &addresses);
    let text = replaced(&replaced(&text, SOCKET, &socket), "timeout: 0.1s", "timeout: 10s");
    let config = folder.path().join("envoy.yaml");
    fs::write(&config, text).expect("the temporary folder can be written to");
    let mut envoy = Process::spawn(
        "envoy",
        Command::new(program)
            .args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning", "-c"])
            .arg(config),
    );
    envoy.wait_for_port(ingress, Duration::from_secs(30));
    let front = Http::new(ingress);
    for _ in 0..3 {
        let reply = front.get("/login").await;
        assert_eq!((reply.status.as_u16(), reply.header("x-application")), (200, Some("yes")));
    }
    let refused = front.get("/login").await;
    assert_eq!((refused.status.as_u16(), refused.header("x-envoy-ratelimited")), (429, Some("true")));
}
