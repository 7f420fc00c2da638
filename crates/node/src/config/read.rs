//! From YAML text to a checked configuration, or to the mistake with its place and its fix.

use std::net::SocketAddr;

use serde::Deserialize;
use serde_saphyr::{Location, Spanned};

use super::{ClusterConfig, Config, ConfigError};

pub(super) fn config(file: &str, text: &str) -> Result<Config, ConfigError> {
    let config = parse(file, text)?;
    let places = Places::find(text);
    let found = check(&config, &places);
    found.map_err(|Mistake { field, place, message, fix }| located(file, place, field, message, fix))?;
    Ok(config)
}

/// What is wrong only beside other fields.
struct Mistake {
    field: &'static str,
    place: Option<Location>,
    message: String,
    fix: String,
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

/// Whether two doors would be one. Port 0 takes any.
fn same(one: SocketAddr, other: SocketAddr) -> bool {
    one == other && one.port() != 0
}

fn parse(file: &str, text: &str) -> Result<Config, ConfigError> {
    let mut field = String::new();
    let read = serde_saphyr::with_deserializer_from_str(text, |deserializer| {
        serde_path_to_error::deserialize::<_, Option<Config>>(deserializer).map_err(|error| {
            field = error.path().to_string();
            error.into_inner()
        })
    });
    match read {
        Ok(config) => Ok(config.unwrap_or_default()),
        Err(error) => Err(from_yaml_error(file, &field, &error)),
    }
}

fn from_yaml_error(file: &str, field: &str, error: &serde_saphyr::Error) -> ConfigError {
    let error = error.without_snippet();
    let text = error.render();
    // The place has fields of its own.
    let text = text.split(" at line ").next().unwrap_or(&text);
    let text = text.lines().next().unwrap_or(text).trim_end_matches(['.', ':']);
    let text = match text {
        "expected mapping start" => "expected fields, such as `rules: rules.yaml`",
        "invalid i128" => "not a whole number",
        text => text.split(", set DuplicateKeyPolicy").next().unwrap_or(text),
    };
    let (message, fix) = match (text.split_once("; "), text.split_once(", expected ")) {
        (Some((message, fix)), _) => (message, fix.to_owned()),
        (None, Some((message, choices))) => (message, format!("use {choices}")),
        (None, None) => (text, String::new()),
    };
    located(file, error.location(), field.trim_end_matches(".?"), message.to_owned(), fix)
}

/// A door that other machines reach must say that it knows: nothing here encrypts.
fn check_door(
    field: &'static str,
    place: Option<Location>,
    listen: SocketAddr,
    plaintext: bool,
) -> Result<(), Mistake> {
    if listen.ip().is_loopback() || plaintext {
        return Ok(());
    }
    Err(Mistake {
        field,
        place,
        message: format!("{listen} is reached by other machines, unencrypted"),
        fix: "listen on loopback (127.0.0.1), or say plaintext: true beside it".to_owned(),
    })
}

fn located(file: &str, at: Option<Location>, field: &str, message: String, fix: String) -> ConfigError {
    let (line, column) = at.map_or((0, 0), |at| (at.line(), at.column()));
    let field = if field == "." || field == "?" { "" } else { field };
    ConfigError { file: file.to_owned(), line, column, field: field.to_owned(), message, fix }
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
            clients: Option<Door>,
            admin: Option<Door>,
            key_secret_file: Option<Spanned<String>>,
            cluster: Option<Cluster>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Cluster {
            name: Option<Spanned<String>>,
            peers: Option<Door>,
            gossip: Option<Door>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Door {
            listen: Option<Spanned<String>>,
        }
        let file: File = serde_saphyr::from_str::<Option<File>>(text).ok().flatten().unwrap_or_default();
        let place = |text: Option<Spanned<String>>| text.map(|text| text.referenced);
        let listen = |door: Option<Door>| place(door.and_then(|door| door.listen));
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
