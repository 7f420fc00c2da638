//! Where rules come from: the built-in examples, one file, or a folder of files.
//!
//! Invariant: a set is read twice and must be the same both times, so that files swapped meanwhile don't mix.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_front::AdminError;
use leasehold_limit::rules::{FILE_BYTES_MAX, RuleError};

use crate::files::read_text;

/// The built-in example rules.
pub const EXAMPLE_RULES_YAML: &str = include_str!("../dev_rules.yaml");

/// Files of one folder. More are refused as a whole: a set that is read in part would drop limits.
const FILES_MAX: usize = 4_096;

/// Readings until two agree. At the bound the last one is taken: the next event or poll reads again.
const READINGS_MAX: usize = 5;

/// Where rules come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The examples in the program.
    BuiltIn,
    /// One file, one domain.
    File(PathBuf),
    /// Every `*.yaml` and `*.yml` in it that isn't hidden.
    Folder(PathBuf),
}

/// One rule file as it was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RuleFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// A file or folder that could not be read.
#[derive(Debug)]
pub(crate) struct ReadError {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

impl Source {
    /// What a configured path is: a folder if it is one now, else a file.
    pub(crate) fn at(path: Option<&Path>) -> Self {
        match path {
            None => Self::BuiltIn,
            Some(path) if path.is_dir() => Self::Folder(path.to_owned()),
            Some(path) => Self::File(path.to_owned()),
        }
    }

    /// The files, by path. Blocks on the disk.
    pub(crate) fn read(&self) -> Result<Vec<RuleFile>, ReadError> {
        let mut last = self.read_once()?;
        for _ in 1..READINGS_MAX {
            let again = self.read_once()?;
            if again == last {
                break;
            }
            last = again;
        }
        Ok(last)
    }

    fn read_once(&self) -> Result<Vec<RuleFile>, ReadError> {
        match self {
            Self::BuiltIn => {
                Ok(vec![RuleFile { path: PathBuf::from("built in"), text: EXAMPLE_RULES_YAML.to_owned() }])
            }
            Self::File(path) => Ok(vec![read_file(path)?]),
            Self::Folder(folder) => {
                let listed = rule_files(folder);
                let paths = listed.map_err(|source| ReadError { path: folder.clone(), source })?;
                paths.iter().map(|path| read_file(path)).collect()
            }
        }
    }

    /// The file that one domain's rules are written to.
    pub(crate) fn path_for(
        &self,
        domain: &str,
        held: &BTreeMap<Arc<str>, PathBuf>,
    ) -> Result<PathBuf, AdminError> {
        let path = match (self, held.get(domain)) {
            (Self::BuiltIn, _) => {
                return Err(AdminError::ReadOnly(
                    "the rules are the built-in examples; start with rules: FILE to change them".to_owned(),
                ));
            }
            (Self::File(_) | Self::Folder(_), Some(path)) => path.clone(),
            (Self::File(path), None) => {
                return Err(AdminError::ReadOnly(format!(
                    "{} holds one domain, and {domain:?} is another; start with rules: FOLDER to hold several",
                    path.display()
                )));
            }
            (Self::Folder(folder), None) => new_file(folder, domain)?,
        };
        if path.is_symlink() {
            return Err(AdminError::ReadOnly(format!(
                "{} is a symbolic link: change what it is made from",
                path.display()
            )));
        }
        Ok(path)
    }

    /// The file that goes with one domain's rules.
    pub(crate) fn path_to_remove(
        &self,
        domain: &str,
        held: &BTreeMap<Arc<str>, PathBuf>,
    ) -> Result<PathBuf, AdminError> {
        if let Self::File(path) = self {
            return Err(AdminError::ReadOnly(format!(
                "{} is all the rules there are: a node starts with some; start with rules: FOLDER to hold several",
                path.display()
            )));
        }
        self.path_for(domain, held)
    }

    /// The folders whose changes may change the rules.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        match self {
            Self::BuiltIn => Vec::new(),
            Self::Folder(folder) => vec![folder.clone()],
            Self::File(path) => {
                let target = path.canonicalize().ok();
                let mut folders: Vec<_> =
                    [Some(path.as_path()), target.as_deref()].into_iter().flatten().map(parent).collect();
                folders.dedup();
                folders
            }
        }
    }
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}

/// The rule files of a folder, by path. What begins with a dot is an editor's, or Kubernetes' `..data`.
///
/// # Errors
/// The folder can't be read, or holds no rule file, or too many.
pub fn rule_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        let yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        if yaml && !hidden && !path.is_dir() {
            paths.push(path);
        }
    }
    if paths.len() > FILES_MAX {
        return Err(io::Error::other(format!("more than {FILES_MAX} rule files")));
    }
    // An empty folder is an unmounted one more often than a wish for no limits.
    if paths.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no *.yaml file in this folder"));
    }
    paths.sort();
    Ok(paths)
}

fn read_file(path: &Path) -> Result<RuleFile, ReadError> {
    match read_text(path, FILE_BYTES_MAX) {
        Ok(text) => Ok(RuleFile { path: path.to_owned(), text }),
        Err(source) => Err(ReadError { path: path.to_owned(), source }),
    }
}

/// A new domain's file is named after it.
fn new_file(folder: &Path, domain: &str) -> Result<PathBuf, AdminError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if domain.starts_with('.') || !domain.chars().all(plain) {
        return Err(AdminError::ReadOnly(format!(
            "no file can be named after the domain {domain:?}: put one into {} by hand",
            folder.display()
        )));
    }
    let path = folder.join(format!("{domain}.yaml"));
    if path.exists() {
        return Err(AdminError::Failed(format!(
            "{} exists and does not hold the domain {domain:?}: mend or move it first",
            path.display()
        )));
    }
    Ok(path)
}

impl ReadError {
    /// As a mistake beside those in the files.
    pub(crate) fn into_mistake(self) -> RuleError {
        RuleError {
            file: self.path.display().to_string(),
            line: 1,
            column: 1,
            field: String::new(),
            message: format!("cannot be read: {}", self.source),
            fix: "make the file readable again, or remove it from the folder".to_owned(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::File(path) | Self::Folder(path) => path.display().fmt(f),
        }
    }
}
