//! What a cluster in one process is made of, before it runs.

use super::*;

fn args(http: &str, nodes: u16) -> Args {
    let (http, admin) = (http.parse().unwrap(), "127.0.0.1:0".parse().unwrap());
    Args { rules: None, nodes, data: None, http, admin, verbose: 0 }
}

#[test]
fn ports_that_the_seeds_name_stay_taken_until_the_nodes_have_them() {
    let folder = tempfile::tempdir().unwrap();
    let planned = plan(&args("127.0.0.1:0", 3), folder.path()).unwrap_or_else(|_| panic!("no plan"));
    let seeds = &planned[0].config.cluster.as_ref().unwrap().seeds;
    assert_eq!(seeds.len(), 3);
    for seed in seeds {
        assert!(TcpListener::bind(seed).is_err(), "{seed} is free");
    }
}

#[test]
fn named_ports_are_counted_from_the_first_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let planned = plan(&args("127.0.0.1:7600", 2), folder.path()).unwrap_or_else(|_| panic!("no plan"));
    let cluster = planned[1].config.cluster.as_ref().unwrap();
    let ports = [cluster.peers.listen.port(), cluster.gossip.listen.port()];
    assert_eq!((cluster.seeds[1].as_str(), ports), ("127.0.0.1:7611", [7611, 7613]));
}
