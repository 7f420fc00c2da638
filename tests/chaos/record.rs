//! The history of a run while it goes on: one clock, one file, many writers.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_tests::Timeline;

use crate::history::{Event, Phase, PhaseName, Reached, Writer};

/// See the module. Clones write to the same file.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    writer: Arc<Mutex<Writer<BufWriter<File>>>>,
    clock: Timeline,
    path: PathBuf,
}

impl Record {
    /// Begins a history; its clock begins now.
    ///
    /// # Errors
    /// When the file can't be made.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let writer = Arc::new(Mutex::new(Writer::create(path)?));
        Ok(Self { writer, clock: Timeline::start(), path: path.to_owned() })
    }

    /// Since it began, in ns.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Appends an event.
    ///
    /// # Panics
    /// When the file can't be written to: a run without its history is worth nothing.
    pub(crate) fn write(&self, event: &Event) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.write(event).unwrap_or_else(|error| panic!("writing {}: {error}", self.path.display()));
    }

    /// A part of the run begins.
    ///
    /// # Panics
    /// As [`Record::write`].
    pub(crate) fn phase(&self, name: PhaseName) {
        self.write(&Event::Phase(Phase { at: self.now_ns(), name }));
        let flushed = self.writer.lock().unwrap_or_else(PoisonError::into_inner).flush();
        flushed.unwrap_or_else(|error| panic!("writing {}: {error}", self.path.display()));
    }

    /// A state that is worth visiting was visited.
    pub(crate) fn reached(&self, name: &str, note: String) {
        self.write(&Event::Reached(Reached { at: self.now_ns(), name: name.to_owned(), note }));
    }
}
