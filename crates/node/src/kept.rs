//! Keeps what a test logs on its thread.

use std::io;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tracing::Dispatch;
use tracing::subscriber::DefaultGuard;

/// While there is only one subscriber, tracing asks the thread that comes to an event first whether anybody wants it: one
/// that keeps nothing would turn the event off for all. With a second one everybody is asked.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(tracing_subscriber::registry()));

/// What was logged since it began to keep.
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<u8>>>,
    _keeping: DefaultGuard,
}

struct Lines(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Begins to keep.
    pub(crate) fn keep() -> Self {
        LazyLock::force(&SECOND);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&lines);
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || Lines(Arc::clone(&writer)))
            .finish();
        Self { lines, _keeping: tracing::subscriber::set_default(subscriber) }
    }

    /// As it was written.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.lines.lock().clone()).expect("text")
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
