//! What a cluster in one process is made of, before it runs.

use super::*;

fn args(http: &str, nodes: u16) -> Args {
    let (http, admin) = (http.parse().unwrap(), "127.0.0.1:0".parse().unwrap());
    let nodes = Some(nodes);
    Args {
        rules: None,
        nodes,
        regions: Vec::new(),
        rtt: Vec::new(),
        load: None,
        data: None,
        http,
        admin,
        verbose: 0,
    }
}

fn planned(args: &Args, regions: Option<&Regions>, data: &Path) -> Vec<Planned> {
    let seats = seats(args, regions).unwrap_or_else(|failure| panic!("{failure:?}"));
    plan(args, &seats, regions, data).unwrap_or_else(|failure| panic!("{failure:?}"))
}

#[test]
fn ports_that_the_seeds_name_stay_taken_until_the_nodes_have_them() {
    let folder = tempfile::tempdir().unwrap();
    let planned = planned(&args("127.0.0.1:0", 3), None, folder.path());
    let seeds = &planned[0].config.cluster.as_ref().unwrap().seeds;
    assert_eq!(seeds.len(), 3);
    for seed in seeds {
        assert!(TcpListener::bind(seed).is_err(), "{seed} is free");
    }
}

#[test]
fn named_ports_are_counted_from_the_first_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let planned = planned(&args("127.0.0.1:7600", 2), None, folder.path());
    let cluster = planned[1].config.cluster.as_ref().unwrap();
    let ports = [cluster.peers.listen.port(), cluster.gossip.listen.port()];
    assert_eq!((cluster.seeds[1].as_str(), ports), ("127.0.0.1:7611", [7611, 7613]));
}

#[test]
fn each_region_has_its_nodes_and_knows_how_far_the_others_are() {
    let folder = tempfile::tempdir().unwrap();
    let (names, rtt) = (["eu".to_owned(), "us".to_owned()], ["eu-us=80ms".to_owned()]);
    let regions = Regions::read(&names, &rtt).unwrap_or_else(|failure| panic!("{failure:?}"));
    let args = Args { nodes: None, ..args("127.0.0.1:7600", 1) };
    let planned = planned(&args, regions.as_ref(), folder.path());
    let told: Vec<_> = planned
        .iter()
        .map(|node| {
            let cluster = node.config.cluster.as_ref().unwrap();
            (cluster.node.as_deref().unwrap(), cluster.region.as_str(), cluster.peers.listen.port())
        })
        .collect();
    let expected = [
        ("eu-1", "eu", 7601),
        ("eu-2", "eu", 7611),
        ("eu-3", "eu", 7621),
        ("us-1", "us", 7631),
        ("us-2", "us", 7641),
        ("us-3", "us", 7651),
    ];
    assert_eq!(told, expected);
    let delays = &planned[0].config.cluster.as_ref().unwrap().delays;
    assert_eq!(*delays, [("us".to_owned(), Duration::from_millis(40))].into());
}

#[test]
fn more_nodes_than_a_process_should_run_are_refused() {
    let names = ["a", "b", "c"].map(str::to_owned);
    let regions = Regions::read(&names, &[]).unwrap_or_else(|failure| panic!("{failure:?}"));
    let failure = seats(&args("127.0.0.1:0", 6), regions.as_ref()).expect_err("18 nodes");
    assert_eq!(failure.error.to_string(), "--nodes: 6 in each region are 18 nodes");
}
