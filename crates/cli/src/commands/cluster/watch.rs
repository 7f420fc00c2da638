//! `--watch`: the same again every second, over itself on a terminal and one below the other elsewhere.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::Duration;

use crate::failure::{Failure, Outcome};
use crate::output;

const EVERY: Duration = Duration::from_secs(1);

/// Moves to the upper left and clears the rest.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Prints what `look` sees, once or until the process is told to stop or nobody reads any more.
///
/// While watching, a server that doesn't answer is shown and asked again.
pub(super) fn watched(again: bool, look: impl Fn() -> Result<String, Failure>) -> Result<Outcome, Failure> {
    if !again {
        output::raw(&look()?);
        return Ok(Outcome::Done);
    }
    let clear = if io::stdout().is_terminal() { CLEAR } else { "" };
    loop {
        let seen = match look() {
            Ok(seen) => seen,
            Err(failure) if failure.code == 1 => format!("{}\n", output::describe(&failure, false)),
            Err(failure) => return Err(failure),
        };
        output::raw(&format!("{clear}{seen}"));
        if output::is_broken() {
            return Ok(Outcome::Done);
        }
        thread::sleep(EVERY);
    }
}
