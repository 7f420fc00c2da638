//! Which crate may use which: the architecture as two tables, compared with what the manifests declare.
//!
//! Declared dependencies are what counts, so an unused arrow fails as well. A new crate fails until it has a row.
//! This is not a licence or version check.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// A crate's place in the architecture.
struct Row {
    name: &'static str,
    layer: Layer,
    may_use: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// Time, chance and order come in as arguments.
    Pure,
    /// Knows one outside technology each.
    Adapter,
    /// Linked into processes.
    Library,
    /// Runs.
    Process,
    /// Looks at everything from outside.
    Test,
}

const PURE: &[&str] = &["model", "limit", "placement", "control", "lease", "shard"];
const PURE_AND_WIRE: &[&str] = &["model", "limit", "placement", "control", "lease", "shard", "wire"];
const BELOW_PROCESSES: &[&str] = &[
    "model",
    "limit",
    "placement",
    "control",
    "lease",
    "shard",
    "decide",
    "wire",
    "consensus",
    "gossip",
    "cluster",
    "client",
    "front",
    "service",
];
const BELOW_CLI: &[&str] = &[
    "model",
    "limit",
    "placement",
    "control",
    "lease",
    "shard",
    "decide",
    "wire",
    "consensus",
    "gossip",
    "cluster",
    "client",
    "front",
    "service",
    "node",
    "edge",
    "plot",
];

const ARROWS: &[Row] = &[
    Row { name: "model", layer: Layer::Pure, may_use: &[] },
    Row { name: "limit", layer: Layer::Pure, may_use: &["model"] },
    Row { name: "placement", layer: Layer::Pure, may_use: &["model"] },
    Row { name: "control", layer: Layer::Pure, may_use: &["model", "placement"] },
    Row { name: "lease", layer: Layer::Pure, may_use: &["model", "limit"] },
    Row { name: "shard", layer: Layer::Pure, may_use: &["model", "limit", "lease"] },
    Row {
        name: "decide",
        layer: Layer::Library,
        may_use: &["model", "limit", "placement", "lease", "shard"],
    },
    Row { name: "wire", layer: Layer::Adapter, may_use: PURE },
    Row { name: "consensus", layer: Layer::Adapter, may_use: PURE_AND_WIRE },
    Row { name: "gossip", layer: Layer::Adapter, may_use: &["model", "placement"] },
    Row {
        name: "cluster",
        layer: Layer::Library,
        may_use: &["model", "limit", "placement", "control", "shard", "wire", "consensus", "gossip"],
    },
    Row {
        name: "client",
        layer: Layer::Library,
        may_use: &["model", "limit", "placement", "control", "lease", "shard", "decide", "wire"],
    },
    Row { name: "front", layer: Layer::Library, may_use: &["model", "limit", "decide", "wire"] },
    Row { name: "service", layer: Layer::Library, may_use: &["model", "limit", "decide", "front"] },
    Row { name: "node", layer: Layer::Process, may_use: BELOW_PROCESSES },
    Row {
        name: "edge",
        layer: Layer::Process,
        may_use: &[
            "model",
            "limit",
            "placement",
            "lease",
            "shard",
            "decide",
            "wire",
            "client",
            "front",
            "service",
        ],
    },
    Row { name: "plot", layer: Layer::Library, may_use: &[] },
    Row { name: "cli", layer: Layer::Process, may_use: BELOW_CLI },
    Row { name: "sim", layer: Layer::Test, may_use: PURE },
    Row {
        name: "fuzz",
        layer: Layer::Test,
        may_use: &["model", "limit", "shard", "control", "wire", "consensus", "gossip", "front"],
    },
    Row { name: "tests", layer: Layer::Test, may_use: BELOW_CLI },
];

/// An outside technology and the crates that may know it. What isn't named here is free to use in any crate that
/// isn't pure; pure crates may use only what [`PURE_MAY_USE`] names.
struct Technology {
    crates: &'static [&'static str],
    known_by: &'static [&'static str],
    why: &'static str,
}

const TECHNOLOGIES: &[Technology] = &[
    Technology { crates: &["jiff"], known_by: &["limit"], why: "calendar windows are part of the rules" },
    Technology { crates: &["saphyr-parser"], known_by: &["limit"], why: "rule errors need line and column" },
    Technology {
        crates: &["siphasher"],
        known_by: &["limit", "shard", "placement", "wire"],
        why: "counter keys, rendezvous scores, the hash that compares replicas' states, a snapshot's checksum",
    },
    Technology {
        crates: &["prost", "prost-types", "tonic-prost", "tonic-prost-build", "protox"],
        known_by: &["wire"],
        why: "protobuf messages become checked types in one place",
    },
    Technology {
        crates: &["tonic"],
        known_by: &["wire", "front", "client", "node", "cli", "tests"],
        why: "front serves with it, node assembles the server, client, cli and tests call through its channel; \
              messages stay in wire",
    },
    Technology {
        crates: &["tonic-health", "tonic-reflection"],
        known_by: &["front", "tests"],
        why: "two ready-made services beside the doors; tests call them",
    },
    Technology {
        crates: &["redis"],
        known_by: &["tests"],
        why: "the peer that exact checks are measured against",
    },
    Technology {
        crates: &["axum", "socket2"],
        known_by: &["front", "tests", "fuzz"],
        why: "doors and listener; the floor bench",
    },
    Technology {
        crates: &["hyper", "hyper-util"],
        known_by: &["front", "cli", "tests"],
        why: "the server's door; the load generator's and the tests' client",
    },
    Technology {
        crates: &["serde-saphyr"],
        known_by: &["service", "tests"],
        why: "configuration files; manifests of examples",
    },
    Technology { crates: &["notify"], known_by: &["node"], why: "watches rule files" },
    Technology {
        crates: &["rustix"],
        known_by: &["node", "consensus", "cluster", "client", "front", "edge", "tests"],
        why: "the clock; disk space reserved ahead; a look at a socket's first bytes; tests send signals",
    },
    Technology {
        crates: &["prometheus-client"],
        known_by: &["service", "node", "edge"],
        why: "the metrics page",
    },
    Technology {
        crates: &["tracing-subscriber"],
        known_by: &["service", "cli"],
        why: "a process chooses where its log goes; libraries only write to it",
    },
    Technology { crates: &["getrandom"], known_by: &["node", "cluster"], why: "secrets and session ids" },
    Technology { crates: &["clap"], known_by: &["cli", "sim", "tests"], why: "a command line" },
    Technology {
        crates: &["oorandom"],
        known_by: &["sim"],
        why: "all chance of a simulated world comes from its seed",
    },
    Technology {
        crates: &["clap_complete", "comfy-table", "indicatif", "hdrhistogram"],
        known_by: &["cli"],
        why: "a command line and its tables",
    },
    Technology {
        crates: &["toml", "tokio-tun"],
        known_by: &["tests"],
        why: "scenarios of the chaos harness, and the network that it makes of namespaces",
    },
    Technology {
        crates: &["openraft", "sled", "crc32c"],
        known_by: &["consensus"],
        why: "the replicated log",
    },
    Technology {
        crates: &["chitchat", "chacha20poly1305", "zstd"],
        known_by: &["gossip"],
        why: "membership, and datagrams sealed before they are decoded",
    },
];

/// All that pure crates may use of the outside: none of it reads a clock, draws a random number or does I/O.
const PURE_MAY_USE: &[&str] =
    &["thiserror", "siphasher", "ipnet", "saphyr-parser", "strsim", "jiff", "hashbrown", "bytes", "smallvec"];

/// The short name of one of our crates.
fn ours(package: &str) -> Option<&str> {
    package.strip_prefix("leasehold-")
}

/// The names of the crates of the pure layer, for tests that look into their sources.
pub(crate) fn pure_crates() -> impl Iterator<Item = &'static str> {
    ARROWS.iter().filter(|row| row.layer == Layer::Pure).map(|row| row.name)
}

fn row(name: &str) -> Option<&'static Row> {
    ARROWS.iter().find(|row| row.name == name)
}

fn workspace_packages() -> Vec<Package> {
    MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .expect("cargo metadata reads the workspace's manifests")
        .packages
}

/// Every complaint about one package's declared dependencies.
fn complaints(package: &Package) -> Vec<String> {
    let name = ours(package.name.as_str()).unwrap_or(package.name.as_str());
    let Some(row) = row(name) else {
        return vec![format!("{name}: not in the table of arrows; give it a row in tests/it/arrows.rs")];
    };
    let mut found = Vec::new();
    for dependency in &package.dependencies {
        if let Some(target) = ours(&dependency.name) {
            if !row.may_use.contains(&target) {
                found.push(format!("{name} -> {target}: this arrow is not in the table"));
            }
            continue;
        }
        // What only tests and benches of a crate use isn't in the program.
        if dependency.kind == DependencyKind::Development {
            continue;
        }
        if let Some(technology) = TECHNOLOGIES.iter().find(|t| t.crates.contains(&dependency.name.as_str()))
            && !technology.known_by.contains(&name)
        {
            found.push(format!(
                "{name} uses {}, which only {:?} may know: {}",
                dependency.name, technology.known_by, technology.why
            ));
        }
        if row.layer == Layer::Pure && !PURE_MAY_USE.contains(&dependency.name.as_str()) {
            found.push(format!(
                "{name} is pure and uses {}: is that free of clock, chance and I/O?",
                dependency.name
            ));
        }
    }
    found
}

#[test]
fn every_arrow_between_crates_is_in_the_table() {
    let packages = workspace_packages();
    assert!(packages.len() >= 8, "cargo metadata listed only {} packages", packages.len());
    let found: Vec<String> = packages.iter().flat_map(complaints).collect();
    assert!(found.is_empty(), "arrows that the architecture doesn't have:\n  {}", found.join("\n  "));
}

#[test]
fn the_table_has_no_cycle_and_points_down_only() {
    let mut above: BTreeSet<&str> = BTreeSet::new();
    for row in ARROWS {
        for target in row.may_use {
            // The rows are in order from the bottom, so a target has been seen before whoever uses it.
            assert!(above.contains(target), "{} -> {target} points up", row.name);
        }
        above.insert(row.name);
    }
}

#[test]
fn a_folder_is_named_as_its_package_without_the_prefix() {
    let folders: BTreeMap<String, String> = workspace_packages()
        .iter()
        .map(|p| {
            let folder = p.manifest_path.parent().and_then(|f| f.file_name()).unwrap_or_default().to_owned();
            (p.name.to_string(), folder)
        })
        .collect();
    for (package, folder) in folders {
        assert_eq!(package, format!("leasehold-{folder}"), "package and folder differ");
    }
}
