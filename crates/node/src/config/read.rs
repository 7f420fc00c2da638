//! From YAML text to a checked configuration, or to the mistake with its place and its fix.

use leasehold_service::config::read::{
    DoorPlace, Location, Mistake, Placed, check_door, parse, place, places, same,
};
use serde::Deserialize;

use super::{ClusterConfig, Config, ConfigError};

pub(super) fn config(file: &str, text: &str) -> Result<Config, ConfigError> {
    let config = parse(file, text, "rules: rules.yaml")?;
    check(&config, &Places::find(text)).map_err(|mistake| mistake.in_file(file))?;
    Ok(config)
}

fn check(config: &Config, places: &Places) -> Result<(), Mistake> {
    check_door("clients.listen", places.clients, config.clients.listen, config.clients.plaintext)?;
    check_door("admin.listen", places.admin, config.admin.listen, config.admin.plaintext)?;
    if same(config.clients.listen, config.admin.listen) {
        return Err(Mistake {
            field: "admin.listen",
            place: places.admin,
            message: format!("{} is the clients' address already", config.admin.listen),
            fix: "give operators a port of their own, for example 127.0.0.1:7602".to_owned(),
        });
    }
    config.cluster.as_ref().map_or(Ok(()), |cluster| check_cluster(config, cluster, &places.cluster))
}

fn check_cluster(config: &Config, cluster: &ClusterConfig, places: &ClusterPlaces) -> Result<(), Mistake> {
    let listen = cluster.peers.listen;
    check_door("cluster.peers.listen", places.peers, listen, cluster.peers.plaintext)?;
    for (whose, other) in [("clients", config.clients.listen), ("operators", config.admin.listen)] {
        if same(listen, other) {
            return Err(Mistake {
                field: "cluster.peers.listen",
                place: places.peers,
                message: format!("{listen} is the {whose}' address already"),
                fix: "give peers a port of their own, for example 127.0.0.1:7601".to_owned(),
            });
        }
    }
    if cluster.gossip.key_file.is_none() && !cluster.is_on_one_machine() {
        return Err(Mistake {
            field: "cluster.gossip.key_file",
            place: places.gossip.or(places.name),
            message: "gossip between machines is sealed with a key that only the nodes have".to_owned(),
            fix: "make one by openssl rand -hex 32 > gossip.key, copy it to every node and name it here"
                .to_owned(),
        });
    }
    if config.key_secret_file.is_some() {
        return Err(Mistake {
            field: "key_secret_file",
            place: places.key_secret_file,
            message: "a cluster draws a secret of its own when it is created".to_owned(),
            fix: "leave it out".to_owned(),
        });
    }
    Ok(())
}

/// Where the fields stand that are checked against others.
#[derive(Default)]
struct Places {
    clients: Option<Location>,
    admin: Option<Location>,
    cluster: ClusterPlaces,
}

#[derive(Default)]
struct ClusterPlaces {
    name: Option<Location>,
    peers: Option<Location>,
    gossip: Option<Location>,
    key_secret_file: Option<Location>,
}

impl Places {
    fn find(text: &str) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct File {
            clients: Option<DoorPlace>,
            admin: Option<DoorPlace>,
            key_secret_file: Option<Placed>,
            cluster: Option<Cluster>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Cluster {
            name: Option<Placed>,
            peers: Option<DoorPlace>,
            gossip: Option<DoorPlace>,
        }
        let file: File = places(text);
        let listen = |door: Option<DoorPlace>| door.and_then(DoorPlace::listen);
        let cluster = file.cluster.unwrap_or_default();
        Self {
            clients: listen(file.clients),
            admin: listen(file.admin),
            cluster: ClusterPlaces {
                name: place(cluster.name),
                peers: listen(cluster.peers),
                gossip: listen(cluster.gossip),
                key_secret_file: place(file.key_secret_file),
            },
        }
    }
}
