//! Why a command failed, what to do next, and the exit code that says so to a script.

use std::process::ExitCode;

/// How a command that did its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It did what was asked.
    Done,
    /// It asked, and the answer was no.
    Denied,
    /// It looked for mistakes and printed those it found.
    MistakesFound,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(match outcome {
            Outcome::Done => 0,
            Outcome::MistakesFound => 1,
            Outcome::Denied => 3,
        })
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What went wrong, with its causes.
    pub(crate) error: anyhow::Error,
    /// What to do next, when there is something better than reading the error.
    pub(crate) next_step: Option<String>,
    /// The exit code: 1 for an error, 2 for usage and configuration.
    pub(crate) code: u8,
    /// What a server answered, when that was it.
    pub(crate) code_of_server: Option<tonic::Code>,
}

impl Failure {
    /// The arguments or the configuration are wrong: exit code 2.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { error: error.into(), next_step: None, code: 2, code_of_server: None }
    }

    /// Something else went wrong: exit code 1.
    pub(crate) fn error(error: impl Into<anyhow::Error>) -> Self {
        Self { error: error.into(), next_step: None, code: 1, code_of_server: None }
    }

    /// Says what to do next.
    pub(crate) fn next(mut self, step: impl Into<String>) -> Self {
        self.next_step = Some(step.into());
        self
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::error(error)
    }
}
