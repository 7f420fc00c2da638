//! From YAML text to a checked configuration, or to the mistake with its place and its fix.

use leasehold_service::config::ConfigError;
use leasehold_service::config::read::{DoorPlace, Location, Mistake, check_door, parse, places, same};
use serde::Deserialize;

use super::Config;

pub(super) fn config(file: &str, text: &str) -> Result<Config, ConfigError> {
    let config = parse(file, text, "upstreams: [http://127.0.0.1:7600]")?;
    let places: Places = places(text);
    let (clients, admin) = (listen(places.clients), listen(places.admin));
    check(&config, clients, admin).map_err(|mistake| mistake.in_file(file))?;
    Ok(config)
}

fn check(config: &Config, clients: Option<Location>, admin: Option<Location>) -> Result<(), Mistake> {
    let listens = &config.clients;
    check_door("admin.listen", admin, config.admin.listen, config.admin.plaintext)?;
    let Some(addr) = listens.listen else {
        return if listens.unix.is_some() {
            Ok(())
        } else {
            Err(Mistake {
                field: "clients",
                place: clients,
                message: "no door for clients".to_owned(),
                fix: "write listen: 127.0.0.1:7680, or unix: with the path of a socket".to_owned(),
            })
        };
    };
    check_door("clients.listen", clients, addr, listens.plaintext)?;
    if same(addr, config.admin.listen) {
        return Err(Mistake {
            field: "admin.listen",
            place: admin,
            message: format!("{addr} is the clients' address already"),
            fix: "give operators a port of their own, for example 127.0.0.1:7682".to_owned(),
        });
    }
    Ok(())
}

/// Where the fields stand that are checked against others.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Places {
    clients: Option<DoorPlace>,
    admin: Option<DoorPlace>,
}

fn listen(door: Option<DoorPlace>) -> Option<Location> {
    door.and_then(DoorPlace::listen)
}
