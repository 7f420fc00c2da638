//! Histories to JSONL, a line as soon as it is known.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::event::Event;

/// Appends events. What was written is in the file after [`Writer::flush`], and mostly before.
#[derive(Debug)]
pub(crate) struct Writer<W: Write> {
    output: W,
}

impl Writer<BufWriter<File>> {
    /// Begins a new history in place of any that is there.
    ///
    /// # Errors
    /// When the file can't be made.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self::new(BufWriter::new(File::create(path)?)))
    }
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(output: W) -> Self {
        Self { output }
    }

    /// # Errors
    /// When the line can't be written.
    pub(crate) fn write(&mut self, event: &Event) -> io::Result<()> {
        serde_json::to_writer(&mut self.output, event)?;
        self.output.write_all(b"\n")
    }

    /// # Errors
    /// When what is held back can't be written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
