//! A child process that can't outlive its test, with everything it printed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::clock::Deadline;

/// Threads that wait for a processor are stopped when they get one.
const STOPS_WITHIN: Duration = Duration::from_secs(10);

/// A child process; dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    printed: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    /// Starts it without standard input.
    ///
    /// # Panics
    /// When it can't be started.
    #[must_use]
    pub fn spawn(name: &str, command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("starting {name} ({command:?}): {error}"));
        let printed = Arc::new(Mutex::new(String::new()));
        let readers = vec![
            collect(child.stdout.take().expect("stdout is piped"), Arc::clone(&printed)),
            collect(child.stderr.take().expect("stderr is piped"), Arc::clone(&printed)),
        ];
        Self { name: name.to_owned(), child, printed, readers }
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// All it has printed so far, both streams.
    #[must_use]
    pub fn printed(&self) -> String {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it has printed `text`.
    ///
    /// # Panics
    /// When it ends or the time is over before that.
    pub fn wait_for_text(&mut self, text: &str, within: Duration) {
        let deadline = Deadline::after(within);
        while !self.printed().contains(text) {
            assert!(self.is_running(), "{} ended before it printed {text:?}:\n{}", self.name, self.printed());
            assert!(!deadline.passed(), "{} didn't print {text:?}:\n{}", self.name, self.printed());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until somebody listens at `address`.
    ///
    /// # Panics
    /// When the process ends or the time is over before that.
    pub fn wait_for_port(&mut self, address: SocketAddr, within: Duration) {
        let deadline = Deadline::after(within);
        while TcpStream::connect(address).is_err() {
            assert!(self.is_running(), "{} ended before it listened:\n{}", self.name, self.printed());
            assert!(!deadline.passed(), "{} doesn't listen on {address}:\n{}", self.name, self.printed());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until `GET /readyz` at `address` is answered with 200.
    ///
    /// # Panics
    /// When the process ends or the time is over before that.
    pub fn wait_until_ready(&mut self, address: SocketAddr, within: Duration) {
        let deadline = Deadline::after(within);
        while !is_ready(address).unwrap_or(false) {
            assert!(self.is_running(), "{} ended before it was ready:\n{}", self.name, self.printed());
            assert!(!deadline.passed(), "{} isn't ready at {address}:\n{}", self.name, self.printed());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether it hasn't ended.
    #[must_use]
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it has ended already.
    pub fn signal(&self, signal: Signal) {
        let id =
            i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id is positive");
        kill_process(id, signal).unwrap_or_else(|error| panic!("signalling {}: {error}", self.name));
    }

    /// Stops it in the middle of whatever it does. Returns when all its threads have stopped: what is sent to it afterwards
    /// it sees only when it goes on.
    ///
    /// # Panics
    /// When it has ended, or doesn't stop in time.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let id =
            i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id is positive");
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let look = || waitid(WaitId::Pid(id), options).ok().flatten();
        let stopped = Deadline::after(STOPS_WITHIN).poll(look);
        assert!(stopped.is_some(), "{} doesn't stop:\n{}", self.name, self.printed());
    }

    /// Waits for its end, and until all it printed has been read.
    ///
    /// # Panics
    /// When the time is over before that.
    pub fn wait(&mut self, within: Duration) -> ExitStatus {
        let ended = Deadline::after(within).poll(|| self.child.try_wait().ok().flatten());
        let status = ended.unwrap_or_else(|| panic!("{} didn't end:\n{}", self.name, self.printed()));
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader of output doesn't panic");
        }
        status
    }

    /// Ends it now, without a chance to say goodbye.
    pub fn kill(&mut self) {
        // It may have ended by itself: then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "--- {} printed:\n{}", self.name, self.printed());
        }
    }
}

fn is_ready(address: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}

fn collect(stream: impl Read + Send + 'static, into: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stream);
        let mut line = Vec::new();
        while matches!(lines.read_until(b'\n', &mut line), Ok(1..)) {
            into.lock().unwrap_or_else(PoisonError::into_inner).push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    })
}
