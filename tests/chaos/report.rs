//! Reports that a person reads in a minute: of each run a page with pictures, and one table over all runs. From histories alone.

pub(crate) mod measure;
mod page;
mod panel;
mod regrant;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::check::{Checked, Verdict};
use crate::history::History;
use measure::Measures;

/// A run's history in its folder.
pub(crate) const HISTORY: &str = "history.jsonl";
const PAGE: &str = "report.md";

/// What is kept of a run for the table.
#[derive(Clone, Debug)]
pub(crate) struct Reported {
    /// Its folder's name.
    folder: String,
    scenario: String,
    seed: u64,
    commit: String,
    machine: String,
    measures: Measures,
    pub(crate) checked: Checked,
}

/// Writes the report of every run in a folder of runs, and the table over them. The worst verdict of all.
///
/// # Errors
/// When there is no history, one can't be read, or a report can't be written.
pub(crate) fn report_all(dir: &Path) -> anyhow::Result<Verdict> {
    let folders = folders(dir).with_context(|| format!("look for runs in {}", dir.display()))?;
    anyhow::ensure!(!folders.is_empty(), "no {HISTORY} in the folders of {}", dir.display());
    let mut runs = Vec::new();
    for folder in folders {
        runs.push(report(&folder)?);
    }
    table(dir, &runs)?;
    Ok(runs.iter().map(|run| run.checked.verdict()).max().unwrap_or(Verdict::NoResult))
}

/// Writes the table over some runs.
///
/// # Errors
/// When it can't be written.
pub(crate) fn table(dir: &Path, runs: &[Reported]) -> anyhow::Result<()> {
    write(&dir.join(PAGE), &summary::summary(runs))
}

/// Folders with a history, by their names.
fn folders(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let folder = entry?.path();
        if folder.join(HISTORY).is_file() {
            found.push(folder);
        }
    }
    found.sort();
    Ok(found)
}

/// Writes the report of the run in a folder beside its history.
///
/// # Errors
/// When there is no history, it can't be read, or the report can't be written.
pub(crate) fn report(folder: &Path) -> anyhow::Result<Reported> {
    let history = History::read(&folder.join(HISTORY)).context("report")?;
    let reported = Reported {
        folder: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        scenario: history.run.scenario.clone(),
        seed: history.run.seed,
        commit: history.run.commit.clone(),
        machine: history.run.machine.clone(),
        measures: Measures::of(&history),
        checked: Checked::of(&history),
    };
    write(&folder.join("timeline.svg"), &timeline::draw(&history))?;
    let regrants = regrant::draw(&history, &reported.measures);
    if let Some(drawing) = &regrants {
        write(&folder.join("regrants.svg"), drawing)?;
    }
    write(&folder.join(PAGE), &page::page(&history, &reported, regrants.is_some()))?;
    Ok(reported)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
