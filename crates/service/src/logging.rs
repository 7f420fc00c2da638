//! Logs: text or JSON lines on standard error, filtered by `log.level` or the environment.
//!
//! Invariant: no key and no attribute value is logged above DEBUG; whoever logs sees to it, nothing here filters it.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::config::{LogConfig, LogFormat};

/// Replaces `log.level` when set.
pub const LEVEL_VARIABLE: &str = "LEASEHOLD_LOG";

/// Libraries that log their own workings at the levels of an operator's timeline: openraft has an ERROR for each message
/// that a node that stops doesn't answer. What counts of it is said by those who use them. A level that names them
/// replaces this.
const QUIET: &str = "openraft=off,chitchat=error";

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter isn't one. Mend `log.level`, or the environment's `LEASEHOLD_LOG`.
    #[error(
        "log level {level:?} is not understood; use error, warn, info, debug, trace or a list such as info,leasehold_node=debug"
    )]
    Filter {
        /// As given.
        level: String,
    },
    /// The process logs already.
    #[error("logging is set up already")]
    Twice(#[source] TryInitError),
}

/// Sets up logging for the process, panics included. `LEASEHOLD_LOG` in the environment, if set, replaces `log.level`.
///
/// # Errors
/// [`LogError`].
pub fn init(config: &LogConfig) -> Result<(), LogError> {
    let from_environment = std::env::var(LEVEL_VARIABLE).ok().filter(|level| !level.is_empty());
    let filter = filter(from_environment.as_deref().unwrap_or(&config.level))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match config.format {
        LogFormat::Text => builder.with_ansi(false).finish().try_init(),
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init(),
    }
    .map_err(LogError::Twice)?;
    log_panics();
    Ok(())
}

/// Whether `level` is one.
///
/// # Errors
/// It isn't.
pub fn check_level(level: &str) -> Result<(), LogError> {
    filter(level).map(drop)
}

fn filter(level: &str) -> Result<EnvFilter, LogError> {
    let unknown = || LogError::Filter { level: level.to_owned() };
    // A lone word that is no level would be taken for a target's name and turn everything on for it.
    let is_level =
        |word: &str| !word.is_empty() && word.parse::<tracing_subscriber::filter::LevelFilter>().is_ok();
    if level.split(',').any(|part| !part.contains('=') && !is_level(part.trim())) {
        return Err(unknown());
    }
    // What is said later of the same target counts.
    let level =
        if level.trim().eq_ignore_ascii_case("off") { level.to_owned() } else { format!("{QUIET},{level}") };
    EnvFilter::try_new(level).map_err(|_| unknown())
}

/// A panic ends its task, not the process: it must leave a line where the other lines are.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        tracing::error!(place, message, "panicked: please report this");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_quiet_unless_they_are_named() {
        let level = |given: &str| filter(given).expect("a level").to_string();
        assert!(level("debug").contains("openraft=off"));
        assert!(level("debug,openraft=debug").contains("openraft=debug"));
        assert!(!level("debug,openraft=debug").contains("openraft=off"));
        assert_eq!(level("off"), "off");
    }

    #[test]
    fn a_level_is_a_word_or_a_list() {
        for level in ["error", "warn", "info", "debug", "trace", "off", "info,leasehold_node=debug", "INFO"] {
            assert!(check_level(level).is_ok(), "{level}");
        }
        for level in ["loud", "info,quiet", "leasehold_node=loud", ""] {
            assert!(check_level(level).is_err(), "{level}");
        }
    }
}
