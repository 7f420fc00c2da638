//! From YAML text to a configuration that is yet to be checked, or to the mistake with its place and its fix.

use std::net::SocketAddr;

use serde::Deserialize;
use serde::de::DeserializeOwned;
pub use serde_saphyr::Location;
use serde_saphyr::Spanned;

use super::ConfigError;

/// What is wrong only beside other fields.
#[derive(Debug)]
pub struct Mistake {
    /// Path of the field.
    pub field: &'static str,
    /// Where it stands, if it does.
    pub place: Option<Location>,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub fix: String,
}

impl Mistake {
    /// In this file.
    #[must_use]
    pub fn in_file(self, file: &str) -> ConfigError {
        located(file, self.place, self.field, self.message, self.fix)
    }
}

/// Whether two doors would be one. Port 0 takes any.
#[must_use]
pub fn same(one: SocketAddr, other: SocketAddr) -> bool {
    one == other && one.port() != 0
}

/// Reads a file's fields, each checked by itself. An empty file is the default. `example` is a field that a file may have.
///
/// # Errors
/// The first mistake found.
pub fn parse<T: DeserializeOwned + Default>(file: &str, text: &str, example: &str) -> Result<T, ConfigError> {
    let mut field = String::new();
    let read = serde_saphyr::with_deserializer_from_str(text, |deserializer| {
        serde_path_to_error::deserialize::<_, Option<T>>(deserializer).map_err(|error| {
            field = error.path().to_string();
            error.into_inner()
        })
    });
    match read {
        Ok(config) => Ok(config.unwrap_or_default()),
        Err(error) => Err(from_yaml_error(file, &field, &error, example)),
    }
}

fn from_yaml_error(file: &str, field: &str, error: &serde_saphyr::Error, example: &str) -> ConfigError {
    let error = error.without_snippet();
    let text = error.render();
    // The place has fields of its own.
    let text = text.split(" at line ").next().unwrap_or(&text);
    let text = text.lines().next().unwrap_or(text).trim_end_matches(['.', ':']);
    let expected_fields = format!("expected fields, such as `{example}`");
    let text = match text {
        "expected mapping start" => &expected_fields,
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
///
/// # Errors
/// It doesn't.
pub fn check_door(
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

/// Fields of a file, for their places only: read as leniently as can be.
#[must_use]
pub fn places<T: DeserializeOwned + Default>(text: &str) -> T {
    serde_saphyr::from_str::<Option<T>>(text).ok().flatten().unwrap_or_default()
}

/// A field's text with its place.
pub type Placed = Spanned<String>;

/// Where a door's address stands.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct DoorPlace {
    listen: Option<Placed>,
}

impl DoorPlace {
    /// Of its field `listen`.
    #[must_use]
    pub fn listen(self) -> Option<Location> {
        place(self.listen)
    }
}

/// Where a field stands.
#[must_use]
pub fn place(text: Option<Placed>) -> Option<Location> {
    text.map(|text| text.referenced)
}
