//! From YAML text to a checked configuration, or to the mistake with its place and its fix.

use serde::Deserialize;
use serde_saphyr::{Location, Spanned};

use super::{Config, ConfigError, DoorConfig};

pub(super) fn config(file: &str, text: &str) -> Result<Config, ConfigError> {
    let config = parse(file, text)?;
    let places = Places::find(text);
    for (field, door, place) in
        [("clients.listen", &config.clients, places.clients), ("admin.listen", &config.admin, places.admin)]
    {
        check_door(door).map_err(|(message, fix)| located(file, place, field, message, fix))?;
    }
    if config.clients.listen == config.admin.listen && config.clients.listen.port() != 0 {
        let message = format!("{} is the clients' address already", config.admin.listen);
        let fix = "give operators a port of their own, for example 127.0.0.1:7602".to_owned();
        return Err(located(file, places.admin, "admin.listen", message, fix));
    }
    Ok(config)
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
fn check_door(door: &DoorConfig) -> Result<(), (String, String)> {
    if door.listen.ip().is_loopback() || door.plaintext {
        return Ok(());
    }
    Err((
        format!("{} is reached by other machines, unencrypted", door.listen),
        "listen on loopback (127.0.0.1), or say plaintext: true beside it".to_owned(),
    ))
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
}

impl Places {
    fn find(text: &str) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Doors {
            clients: Option<Door>,
            admin: Option<Door>,
        }
        #[derive(Deserialize)]
        struct Door {
            listen: Spanned<String>,
        }
        let doors: Doors = serde_saphyr::from_str::<Option<Doors>>(text).ok().flatten().unwrap_or_default();
        let place = |door: Option<Door>| door.map(|door| door.listen.referenced);
        Self { clients: place(doors.clients), admin: place(doors.admin) }
    }
}
