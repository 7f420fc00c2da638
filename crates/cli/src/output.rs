//! The only place that prints: answers to stdout, errors to stderr, tables, JSON and lengths of time for people.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::anyhow;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use leasehold_limit::RetryAfter;
use serde::Serialize;

use crate::failure::Failure;

#[cfg(test)]
mod tests;

/// How answers are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    // Plain comments: as documentation they would spread over six lines of every command's help.
    // For people.
    Table,
    // For programs.
    Json,
    // A drawing; only `simulate` makes one.
    #[value(hide = true)]
    Svg,
}

/// A column of a table: its title, and whether its cells are numbers.
pub(crate) type Column = (&'static str, CellAlignment);

/// A column of words.
pub(crate) const fn text(title: &'static str) -> Column {
    (title, CellAlignment::Left)
}

/// A column of numbers.
pub(crate) const fn number(title: &'static str) -> Column {
    (title, CellAlignment::Right)
}

/// The first answer that could not be written, for [`finish`]: printing goes on meanwhile, to no avail.
static UNWRITTEN: OnceLock<io::Error> = OnceLock::new();

/// Prints one line.
pub(crate) fn line(text: impl Display) {
    note_unwritten(writeln!(io::stdout().lock(), "{text}"));
}

/// Prints text as it is.
pub(crate) fn raw(text: &str) {
    note_unwritten(io::stdout().lock().write_all(text.as_bytes()));
}

fn note_unwritten(written: io::Result<()>) {
    if let Err(error) = written {
        let _earlier = UNWRITTEN.set(error);
    }
}

/// Writes what is still buffered.
///
/// # Errors
/// Some of the answers could not be written. A reader that went away (`| head`) is no error.
pub(crate) fn finish() -> Result<(), Failure> {
    note_unwritten(io::stdout().lock().flush());
    match UNWRITTEN.get() {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::error(anyhow!("writing to standard output: {error}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether what was printed could not be written: nobody reads any more.
pub(crate) fn is_broken() -> bool {
    UNWRITTEN.get().is_some()
}

/// Text of a file, a server or a caller as it may stand on a terminal: what would move the cursor, change colours or turn
/// the direction of reading is one replacement character each, so that columns stay where they are.
pub(crate) fn visible(text: &str) -> String {
    let turns = |c| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let acts = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    text.chars().map(|c| if acts(c) || turns(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Prints one line about what goes on, where it doesn't mix with answers.
pub(crate) fn note(text: impl Display) {
    let _gone = writeln!(io::stderr().lock(), "{text}");
}

/// Prints `value` as indented JSON.
pub(crate) fn json(value: &impl Serialize) {
    raw(&json_text(value));
}

/// `value` as indented JSON, with a line's end.
pub(crate) fn json_text(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("plain structs with string keys always serialize") + "\n"
}

/// Lays rows out under their titles.
pub(crate) fn table(columns: &[Column], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|(title, _)| title.to_uppercase()));
    table.add_rows(rows.into_iter().map(|row| row.iter().map(|cell| visible(cell)).collect::<Vec<_>>()));
    for (column, (_, alignment)) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, 2)).set_cell_alignment(*alignment);
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Prints a command line that can't be understood, or the help that was asked for.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    if error.use_stderr() {
        return ExitCode::from(2);
    }
    note_unwritten(printed);
    finish().map_or_else(|unwritten| failure(&unwritten), |()| ExitCode::SUCCESS)
}

/// Prints why a command failed, its causes and the next step; returns its exit code.
pub(crate) fn failure(failure: &Failure) -> ExitCode {
    let bold =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    note(describe(failure, bold));
    ExitCode::from(failure.code)
}

/// Why a command failed, its causes and the next step, as lines.
pub(crate) fn describe(failure: &Failure, bold: bool) -> String {
    let label = if bold { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
    let mut text = format!("{label} {}", visible(&failure.error.to_string()));
    let mut said = failure.error.to_string();
    for cause in failure.error.chain().skip(1) {
        let cause = cause.to_string();
        if !said.contains(&cause) {
            text.push_str(&format!("\n  caused by: {}", visible(&cause)));
            said = cause;
        }
    }
    if let Some(step) = &failure.next_step {
        text.push_str(&format!("\n  next: {step}"));
    }
    text
}

/// A length of time for people, rounded up to what they would read: `12s`, `1m 30s`, `250ms`.
pub(crate) fn duration(nanos: u64) -> String {
    const MILLI: u64 = 1_000_000;
    const SECOND: u64 = 1_000_000_000;
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..MILLI => format!("{}us", nanos.div_ceil(1_000)),
        MILLI..SECOND => format!("{}ms", nanos.div_ceil(MILLI)),
        SECOND.. => long_duration(nanos.div_ceil(MILLI)),
    }
}

fn long_duration(millis: u64) -> String {
    let seconds = millis.div_ceil(1_000);
    match seconds {
        0..=60 => decimal(millis),
        61..3_600 => two_units(seconds, 60, "m", 1, "s"),
        3_600..86_400 => two_units(seconds, 3_600, "h", 60, "m"),
        86_400.. => two_units(seconds, 86_400, "d", 3_600, "h"),
    }
}

fn decimal(millis: u64) -> String {
    let (whole, rest) = (millis / 1_000, millis % 1_000);
    if rest == 0 {
        return format!("{whole}s");
    }
    format!("{}s", format!("{whole}.{rest:03}").trim_end_matches('0'))
}

fn two_units(seconds: u64, large: u64, large_name: &str, small: u64, small_name: &str) -> String {
    let seconds = seconds.div_ceil(small) * small;
    let (whole, rest) = (seconds / large, seconds % large / small);
    if rest == 0 { format!("{whole}{large_name}") } else { format!("{whole}{large_name} {rest}{small_name}") }
}

/// A count with thousands apart: `1,234,567`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// When to come back, for people.
pub(crate) fn retry_after(retry: Option<RetryAfter>) -> String {
    match retry {
        None => "-".to_owned(),
        Some(RetryAfter::In(wait)) => duration(wait.0),
        Some(RetryAfter::Never) => "never".to_owned(),
    }
}

/// A number of things: `1 mistake`, `4 mistakes`.
pub(crate) fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
