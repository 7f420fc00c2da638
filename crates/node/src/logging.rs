//! Logs: text or JSON lines on standard error, filtered by `log.level` or the environment.

use crate::config::LogConfig;

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter isn't one.
    #[error(
        "log.level {level:?}: {message}; use error, warn, info, debug, trace or a list such as info,leasehold_node=debug"
    )]
    Filter {
        /// As given.
        level: String,
        /// What is wrong with it.
        message: String,
    },
    /// The process logs already.
    #[error("logging is set up already")]
    Twice,
}

/// Sets up logging for the process. `LEASEHOLD_LOG` in the environment, if set, replaces `log.level`.
///
/// # Errors
/// [`LogError`].
pub fn init(_config: &LogConfig) -> Result<(), LogError> {
    todo!()
}
