//! The data directory: what a node keeps over restarts beside its log and its replicas.
//!
//! Invariant: an id is drawn once for a directory and never changes; a founding and an identity are stored once and never
//! replaced. What a method has written is on the disk when it returns. Methods block: they belong on blocking threads.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use leasehold_consensus::disk::DirLock;
use leasehold_consensus::log::{Log, LogConfig, OnFatal};
use leasehold_consensus::meta::{Identity, Meta, MetaError};
use leasehold_consensus::types::GroupId;
use leasehold_control::ClusterId;
use leasehold_model::{NodeId, WallTime};
use leasehold_wire::peer::Founding;
use parking_lot::Mutex;

use crate::StartError;

/// Node ids have so many bits: few enough to be typed, too many to meet by chance.
const NODE_BITS: u32 = 48;
/// Bytes of remembered peers. A bound on a value of the metadata; who doesn't fit is learnt from the others.
const PEERS_BYTES_MAX: usize = 48 << 10;

const CANDIDATE: &str = "node/candidate";
const BOOT: &str = "node/boot";
const LOG: &str = "node/log";
const NAME: &str = "cluster/name";
const FOUNDING: &str = "cluster/founding";
const PEERS: &str = "cluster/peers";

/// A node's data directory, locked.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    node: NodeId,
    boot: u64,
    /// None once it was closed. Locked from the look at what is stored to the write that follows from it.
    open: Mutex<Option<Open>>,
}

#[derive(Debug)]
struct Open {
    meta: Meta,
    /// Let go after the metadata.
    _lock: DirLock,
}

impl DataDir {
    /// Takes the directory for the cluster called `name`, making it if it isn't there, and counts this start of the node.
    ///
    /// # Errors
    /// [`StartError`]: somebody else's, of another cluster, or unreadable.
    pub(crate) fn open(path: &Path, name: &str, wall: WallTime) -> Result<Self, StartError> {
        let lock =
            DirLock::acquire(path).map_err(|source| StartError::Data { path: path.to_owned(), source })?;
        let meta = Meta::open(&path.join("meta"))?;
        let node = candidate(&meta)?;
        let boot = next_boot(&meta, wall)?;
        check_name(&meta, path, name)?;
        let open = Mutex::new(Some(Open { meta, _lock: lock }));
        Ok(Self { path: path.to_owned(), node, boot, open })
    }

    /// The id of the node that this directory is.
    pub(crate) const fn node(&self) -> NodeId {
        self.node
    }

    /// Grows from each start of the node to the next.
    pub(crate) const fn boot(&self) -> u64 {
        self.boot
    }

    /// Where the replicas are.
    pub(crate) fn groups(&self) -> PathBuf {
        self.path.join("groups")
    }

    /// Opens the log, and notes that there is one once it has a segment. That is before the node belongs to anybody: a node
    /// that ends in between begins anew.
    ///
    /// # Errors
    /// What can't be read back, or a log that was noted and is gone.
    pub(crate) fn open_log(&self, on_fatal: OnFatal) -> Result<Log, StartError> {
        let path = self.path.join("log");
        let noted = self.with(|meta| meta.get(LOG))?.is_some();
        if noted && !has_segment(&path)? {
            return Err(StartError::LogGone { path: self.path.clone() });
        }
        let log = Log::open(&path, LogConfig::default(), on_fatal)?;
        // A full disk has no room for the first one; nothing is ever voted then.
        if !noted && has_segment(&path)? {
            self.with(|meta| meta.put(LOG, &[]))?;
        }
        Ok(log)
    }

    /// The cluster that this directory belongs to.
    ///
    /// # Errors
    /// When the metadata can't be read.
    pub(crate) fn cluster(&self) -> Result<Option<ClusterId>, MetaError> {
        self.with(cluster)
    }

    /// Belongs to a cluster from now on, for ever.
    ///
    /// # Errors
    /// When it belongs to another already, or the disk fails.
    pub(crate) fn set_cluster(&self, cluster: ClusterId, name: &str) -> Result<(), MetaError> {
        self.with(|meta| {
            meta.put(NAME, name.as_bytes())?;
            meta.set_identity(Identity { cluster: cluster.0, node: self.node.0 })
        })
    }

    /// The founding that this node has agreed to.
    ///
    /// # Errors
    /// When it can't be read.
    pub(crate) fn founding(&self) -> Result<Option<Founding>, MetaError> {
        self.with(founding)
    }

    /// Agrees to a founding, unless to another before; returns the one that holds.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn agree(&self, offered: Founding) -> Result<Founding, MetaError> {
        self.with(|meta| {
            if let Some(stored) = founding(meta)? {
                return Ok(stored);
            }
            meta.put(FOUNDING, &offered.clone().encode())?;
            Ok(offered)
        })
    }

    /// Where peers were last known to be.
    ///
    /// # Errors
    /// When the metadata can't be read.
    pub(crate) fn peers(&self) -> Result<Vec<(NodeId, Arc<str>)>, MetaError> {
        let text = self.with(|meta| meta.get(PEERS))?.unwrap_or_default();
        let text = String::from_utf8(text).map_err(|_| MetaError::Malformed { key: PEERS.to_owned() })?;
        Ok(text.lines().filter_map(read_peer).collect())
    }

    /// Remembers where peers are, as far as there is room.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn set_peers(&self, peers: &[(NodeId, Arc<str>)]) -> Result<(), MetaError> {
        let mut text = String::new();
        for (node, address) in peers {
            let line = format!("{node} {address}\n");
            if text.len() + line.len() > PEERS_BYTES_MAX {
                break;
            }
            text.push_str(&line);
        }
        self.with(|meta| meta.put(PEERS, text.as_bytes()))
    }

    /// Takes away replicas that were made and never held anything: a node that ended between the two makes them again, as
    /// a founder where it is one.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn drop_unbegun(&self, log: &Log) -> io::Result<()> {
        let dir = self.groups();
        fs::create_dir_all(&dir)?;
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let group = entry.file_name().to_str().and_then(|name| name.parse().ok()).map(GroupId);
            let Some(group) = group.filter(|group| log.state(*group).last.is_none()) else { continue };
            match fs::remove_dir(entry.path()) {
                Ok(()) => tracing::debug!(group = group.0, "replica that never held anything removed"),
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(error) => return Err(error),
            }
        }
        fs::File::open(&dir)?.sync_all()
    }

    /// Closes the metadata and lets the directory go; what is asked of it from then on fails.
    pub(crate) fn close(&self) {
        self.open.lock().take();
    }

    fn with<T>(&self, work: impl FnOnce(&Meta) -> Result<T, MetaError>) -> Result<T, MetaError> {
        let open = self.open.lock();
        let closed = || MetaError::Io(io::Error::other("the data directory was closed"));
        work(&open.as_ref().ok_or_else(closed)?.meta)
    }
}

/// Works with the directory on a thread that may block.
///
/// # Errors
/// Those of the work.
pub(crate) async fn blocking<T: Send + 'static>(
    data: &Arc<DataDir>,
    work: impl FnOnce(&DataDir) -> Result<T, MetaError> + Send + 'static,
) -> Result<T, MetaError> {
    let data = Arc::clone(data);
    let done = tokio::task::spawn_blocking(move || work(&data)).await;
    done.unwrap_or_else(|error| Err(MetaError::Io(io::Error::other(error))))
}

/// Whether a log was begun there.
fn has_segment(log: &Path) -> Result<bool, StartError> {
    let failed = |source| StartError::System { what: "looking for the log", source };
    let mut files = match fs::read_dir(log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        files => files.map_err(failed)?,
    };
    files.try_fold(false, |found, file| {
        Ok(found || Path::new(&file.map_err(failed)?.file_name()).extension().is_some_and(|end| end == "seg"))
    })
}

fn cluster(meta: &Meta) -> Result<Option<ClusterId>, MetaError> {
    Ok(meta.identity()?.map(|identity| ClusterId(identity.cluster)))
}

fn founding(meta: &Meta) -> Result<Option<Founding>, MetaError> {
    let Some(bytes) = meta.get(FOUNDING)? else { return Ok(None) };
    let founding = Founding::decode(Bytes::from(bytes));
    Ok(Some(founding.map_err(|_| MetaError::Malformed { key: FOUNDING.to_owned() })?))
}

/// The name that was stored counts once the directory belongs to somebody.
fn check_name(meta: &Meta, path: &Path, asked: &str) -> Result<(), StartError> {
    let stored = match founding(meta)? {
        Some(founding) => Some(founding.name),
        None if cluster(meta)?.is_some() => {
            meta.get(NAME)?.map(|name| String::from_utf8_lossy(&name).into_owned())
        }
        None => None,
    };
    match stored.filter(|stored| stored != asked) {
        None => Ok(()),
        Some(stored) => Err(StartError::Setting {
            field: "cluster.name",
            message: format!(
                "the data directory {} belongs to the cluster {stored:?}, not to {asked:?}: \
                 give this node another data directory, or name the cluster {stored:?}",
                path.display()
            ),
        }),
    }
}

fn candidate(meta: &Meta) -> Result<NodeId, StartError> {
    if let Some(node) = read_number(meta, CANDIDATE)? {
        return Ok(NodeId(node));
    }
    let drawn = loop {
        let random = getrandom::u64().map_err(|error| StartError::System {
            what: "drawing a node id",
            source: io::Error::other(error),
        })?;
        let node = random >> (u64::BITS - NODE_BITS);
        if node != 0 {
            break node;
        }
    };
    meta.put(CANDIDATE, &drawn.to_be_bytes())?;
    Ok(NodeId(drawn))
}

fn next_boot(meta: &Meta, wall: WallTime) -> Result<u64, MetaError> {
    let last = read_number(meta, BOOT)?;
    let boot = last.map_or(0, |last| last.saturating_add(1)).max(wall.0 / 1_000_000);
    meta.put(BOOT, &boot.to_be_bytes())?;
    Ok(boot)
}

fn read_number(meta: &Meta, key: &str) -> Result<Option<u64>, MetaError> {
    let Some(value) = meta.get(key)? else { return Ok(None) };
    let bytes = value.as_slice().try_into().map_err(|_| MetaError::Malformed { key: key.to_owned() })?;
    Ok(Some(u64::from_be_bytes(bytes)))
}

fn read_peer(line: &str) -> Option<(NodeId, Arc<str>)> {
    let (node, address) = line.split_once(' ')?;
    Some((NodeId(node.parse().ok()?), address.into()))
}

#[cfg(test)]
mod tests;
