//! The binary as a script sees it: exit codes, what is on which stream, and a node that starts and ends.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

fn leasehold(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command.args(args).env_remove("LEASEHOLD_SERVER").env_remove("LEASEHOLD_ADMIN").stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    leasehold(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs a command that must end with `code`, with nothing on stdout and `said` on stderr.
fn check_fails(args: &[&str], code: i32, said: &str) {
    let output = run(args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
    assert!(stdout(&output).is_empty(), "{args:?}: {output:?}");
    assert!(stderr(&output).starts_with("error: ") && stderr(&output).contains(said), "{args:?}: {output:?}");
}

fn check_ok(args: &[&str], said: &str) {
    let output = run(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
    assert!(stdout(&output).contains(said), "{args:?}: {output:?}");
}

fn example(name: &str) -> String {
    format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

const RULES: &str =
    "domain: api\nlimits:\n  - { name: two, per: [user], limit: 2/hour, algorithm: fixed_window }\n";

#[test]
fn help_and_version_go_to_stdout_and_are_no_error() {
    check_ok(&["--help"], "Usage: leasehold");
    check_ok(&["--version"], env!("CARGO_PKG_VERSION"));
    check_ok(&["node", "--print-default-config"], "listen: 127.0.0.1:7600");
    for shell in ["bash", "zsh", "fish"] {
        check_ok(&["completions", shell], "simulate");
    }
}

#[test]
fn a_command_line_that_cannot_be_understood_exits_2() {
    check_fails(&["frobnicate"], 2, "unrecognized subcommand");
    check_fails(&["check"], 2, "DOMAIN");
    check_fails(&["check", "api", "alice"], 2, "name=value");
    check_fails(&["check", "api", "--output", "svg"], 2, "only made by");
    check_fails(&["bench", "http://192.0.2.1:7600"], 2, "--allow-remote");
    check_fails(&["bench", "http://127.0.0.1:7600", "--protocol", "http", "--streams", "9"], 2, "--streams");
}

#[test]
fn a_bad_configuration_exits_2_and_names_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let config = file(&folder, "node.yaml", "clients:\n  lissten: 127.0.0.1:0\n");
    check_fails(&["node", "--config", &config], 2, "node.yaml:2:3");
    check_fails(&["node", "--config", "/nonexistent.yaml"], 2, "--print-default-config");
    let rules = file(&folder, "rules.yaml", "domain: api\nlimits:\n  - { name: x, limit: 5/fortnight }\n");
    let output = run(&["dev", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--rules", &rules]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        stderr(&output).contains("rules.yaml:3:") && stderr(&output).contains("1 mistake in"),
        "{output:?}"
    );
}

#[test]
fn a_server_that_is_not_there_exits_1_and_says_what_to_do() {
    // A port that was free a moment ago may be another test's by now.
    let nobody = "127.0.0.1:1";
    check_fails(&["check", "api", "a=b", "--server", nobody], 1, "next: start a server with `leasehold dev`");
    check_fails(&["rules", "status", "--admin", nobody], 1, "--admin");
    check_fails(&["bench", nobody, "--requests", "1"], 1, "cannot connect");
    check_fails(&["check", "api", "--server", "http://a b"], 2, "is no URL");
}

#[test]
fn lint_exits_1_with_every_mistake_under_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let good = file(&folder, "good.yaml", RULES);
    check_ok(&["rules", "lint", &good], "domain api, 1 rule");
    let bad =
        file(&folder, "bad.yaml", "domain: web\nlimits:\n  - { name: x, limit: 5/fortnight, burts: 3 }\n");
    let output = run(&["rules", "lint", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = stdout(&output);
    assert!(
        text.contains("bad.yaml:3:") && text.contains("^\n") && text.contains("2 mistakes in 2 files"),
        "{text}"
    );
    let output = run(&["rules", "lint", &bad, "--output", "json"]);
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (json["ok"].as_bool(), json["mistakes"][0]["line"].as_u64()),
        (Some(false), Some(3)),
        "{json}"
    );
}

#[test]
fn two_files_of_one_domain_are_a_mistake_of_the_set() {
    let folder = tempfile::tempdir().unwrap();
    file(&folder, "a.yaml", RULES);
    file(&folder, "b.yaml", RULES);
    let output = run(&["rules", "lint", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stdout(&output).contains("defined by"), "{output:?}");
}

#[test]
fn explain_says_what_matches_and_why_the_rest_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let rules = file(
        &folder,
        "r.yaml",
        &(RULES.to_owned() + "  - { name: free, when: { plan: free }, limit: 1/s }\n"),
    );
    let request = r#"{"domain": "api", "peer": "10.0.0.1:1", "trusted": ["10.0.0.0/8"],
        "headers": [["X-Forwarded-For", "203.0.113.7"]], "attributes": {"user": "ann", "plan": "pro"}}"#;
    let request = file(&folder, "req.json", request);
    let output = run(&["rules", "explain", "--rules", &rules, "--request", &request]);
    let text = stdout(&output);
    for said in ["203.0.113.7", "two applies", "would allow, 2 left", "free does not apply", "plan is pro"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let elsewhere = file(&folder, "else.json", r#"{"domain": "web"}"#);
    check_fails(
        &["rules", "explain", "--rules", &rules, "--request", &elsewhere],
        1,
        "the domains there are: api",
    );
}

#[test]
fn simulate_prints_one_answer_an_event_in_every_format() {
    let (policy, events) = (example("token-bucket-5-min.json"), example("bursts-59s-90s.jsonl"));
    let output = run(&["simulate", &policy, &events, "--output", "json"]);
    let answers: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 10);
    assert_eq!(answers[0]["reset_after_ns"], 12_000_000_000_u64);
    assert_eq!(answers.iter().filter(|answer| answer["allowed"] == true).count(), 7);
    check_ok(&["simulate", &policy, &events], "7 allowed, 3 denied");
    check_ok(&["simulate", &policy, &events, "--output", "svg"], "</svg>");
    check_ok(&["simulate", "--compare", &events, "--output", "svg"], "sliding counter");
    let output = run(&["simulate", "--compare", &events, "--output", "json"]);
    let totals: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(totals["algorithms"][2]["allowed"], 8, "{totals}");
    check_fails(&["simulate", &events, &events], 1, "not a policy");
    check_fails(&["simulate", &policy, &policy], 1, "line 1");
}

/// `leasehold dev` on free ports; killed when dropped.
struct Dev {
    process: Child,
    clients: String,
    admin: String,
}

impl Dev {
    fn start(rules: &str) -> Self {
        let args = ["dev", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--rules", rules];
        let mut process = leasehold(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut clients, mut admin) = (None, None);
        for line in BufReader::new(process.stdout.as_mut().unwrap()).lines().map(Result::unwrap) {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("clients") => clients = words.next().map(str::to_owned),
                Some("operators") => admin = words.next().map(str::to_owned),
                Some("Ctrl-C") => break,
                _ => {}
            }
        }
        let (Some(clients), Some(admin)) = (clients, admin) else { ended_early(process) };
        Self { process, clients, admin }
    }

    fn code(&self, args: &[&str]) -> i32 {
        leasehold(args).env("LEASEHOLD_SERVER", &self.clients).output().unwrap().status.code().unwrap()
    }

    /// Sends `signal` and waits for the end; its exit code and what it wrote to stderr.
    fn stop(mut self, signal: &str) -> (Option<i32>, String) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        let mut said = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.process.wait().unwrap().code(), said)
    }
}

/// Fails with what a process said that closed its output before it was ready.
fn ended_early(mut process: Child) -> ! {
    let mut said = String::new();
    process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    panic!("`leasehold dev` ended before it was ready, {}: {said}", process.wait().unwrap());
}

/// `leasehold dev --nodes 3` on free ports: the operators' addresses and the clients' of each node.
fn dev_cluster(rules: &str, data: Option<&str>) -> (Dev, Vec<(String, String)>) {
    let mut args =
        vec!["dev", "--nodes", "3", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--rules", rules];
    args.extend(data.iter().flat_map(|data| ["--data", *data]));
    let mut process = leasehold(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut nodes = Vec::new();
    for line in BufReader::new(process.stdout.as_mut().unwrap()).lines().map(Result::unwrap) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            [node, clients, admin] if node.starts_with("node-") => {
                nodes.push(((*admin).to_owned(), (*clients).to_owned()));
            }
            ["Ctrl-C", ..] => break,
            _ => {}
        }
    }
    if nodes.len() < 3 {
        ended_early(process);
    }
    let (admin, clients) = nodes[0].clone();
    (Dev { process, clients, admin }, nodes)
}

/// Runs a command against a cluster's node; its exit code and what it said.
fn operate(admin: &str, args: &[&str]) -> (i32, String) {
    let output = leasehold(args).env("LEASEHOLD_ADMIN", admin).output().unwrap();
    (output.status.code().unwrap(), stdout(&output) + &stderr(&output))
}

/// What is said once it is as it should be: what one node decided, another says a moment later.
fn soon(ask: &dyn Fn() -> String, holds: &dyn Fn(&str) -> bool) -> String {
    for _ in 0..200 {
        let said = ask();
        if holds(&said) {
            return said;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("never as it should be; at last: {}", ask());
}

#[test]
fn a_cluster_in_one_process_is_shown_and_operated() {
    let folder = tempfile::tempdir().unwrap();
    let (dev, nodes) = dev_cluster(&file(&folder, "rules.yaml", RULES), None);
    let on = |node: usize, args: &[&str]| operate(&nodes[node].0, args);
    let check = |node: usize| {
        let mut check = leasehold(&["check", "api", "user=ann"]);
        check.env("LEASEHOLD_SERVER", &nodes[node].1).output().unwrap().status.code()
    };
    assert_eq!([check(0), check(1), check(2)], [Some(0), Some(0), Some(3)]);

    let (code, status) = on(0, &["status"]);
    assert!(code == 0 && status.contains("members    3 active\n"), "{status}");
    let (code, members) = on(1, &["members"]);
    assert!(code == 0 && members.lines().count() == 4 && members.contains("node-3"), "{members}");
    // The last shard may be without a leader for a moment yet.
    let shards = soon(&|| on(2, &["shards"]).1, &|shards| shards.lines().count() == 17);
    assert!(shards.contains("node-1 node-2 node-3"), "{shards}");
    for told in [&status, &members, &shards] {
        assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    }
    let (_, json) = on(2, &["shards", "--output", "json", "--hashes"]);
    let shards: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(shards.as_array().unwrap().len(), 16);

    // On a busy machine a shard may change its leader by itself in between: whoever asks then is told, and asks again.
    soon(&|| on(0, &["shards", "move-leader", "5", "node-2"]).1, &|said| {
        said.contains("node-2 leads shard 5")
    });
    let (code, said) = on(0, &["members", "forget", "node-9"]);
    assert!(code == 1 && said.contains("there are: "), "{said}");
    let (code, said) = on(1, &["members", "drain", "node-3"]);
    assert!(code == 0 && said.contains("node-3 is being drained"), "{said}");
    soon(&|| on(2, &["members"]).1, &|members| members.contains("draining"));
    soon(&|| on(1, &["status"]).1, &|status| status.contains("node-3 can't become empty"));
    assert_eq!(on(1, &["members", "activate", "node-3"]).0, 0);
    let (code, said) = on(1, &["members", "dead", "node-9"]);
    assert!(code == 1 && said.contains("there are: "), "{said}");

    let new = file(&folder, "new.yml", &RULES.replace("2/hour", "3/hour"));
    let (code, said) = on(1, &["rules", "apply", &new, "--expect", "1"]);
    assert!(code == 0 && said.contains("version 2"), "{said}");
    let (code, said) = on(2, &["leases", "ls"]);
    assert!(code == 0 && said.starts_with("0 leases"), "{said}");
    let newer = file(&folder, "newer.yml", &RULES.replace("2/hour", "4/hour"));
    let (code, said) = on(2, &["rules", "apply", &newer, "--expect", "1"]);
    assert!(code == 1 && said.contains("rules get"), "{said}");
    let (code, said) = on(1, &["rules", "remove", "api", "--expect", "2"]);
    assert!(code == 0 && said.contains("version 3"), "{said}");
    soon(&|| on(0, &["rules", "status"]).1, &|status| {
        status.contains("version 3") && !status.contains("api")
    });
    assert_eq!(dev.stop("INT").0, Some(0));
}

#[test]
fn a_cluster_with_a_directory_comes_back_with_what_was_spent() {
    let folder = tempfile::tempdir().unwrap();
    let rules = file(&folder, "rules.yaml", RULES);
    // Ports are others the next time: the nodes find each other anew.
    let data = folder.path().join("data");
    let check = ["check", "api", "user=ann"];
    let (dev, _) = dev_cluster(&rules, Some(data.to_str().unwrap()));
    assert_eq!(dev.code(&check), 0);
    assert_eq!(dev.stop("TERM").0, Some(0));
    let (dev, _) = dev_cluster(&rules, Some(data.to_str().unwrap()));
    assert_eq!([dev.code(&check), dev.code(&check)], [0, 3]);
}

#[test]
fn a_node_that_runs_alone_has_no_members() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(&file(&folder, "rules.yaml", RULES));
    let (code, status) = operate(&dev.admin, &["status"]);
    assert!(code == 0 && status.contains("this node runs alone"), "{status}");
    let (code, said) = operate(&dev.admin, &["members"]);
    assert!(code == 1 && said.contains("runs alone"), "{said}");
    check_fails(&["dev", "--data", "x"], 2, "--nodes 3");
    let config = file(&folder, "node.yaml", "{}");
    check_fails(&["node", "--config", &config, "--node", "a"], 2, "no section `cluster:`");
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _code = self.process.wait();
    }
}

#[test]
fn a_denied_check_exits_3_and_a_reset_admits_again() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(&file(&folder, "rules.yaml", RULES));
    let check = ["check", "api", "user=ann"];
    assert_eq!([dev.code(&check), dev.code(&check), dev.code(&check)], [0, 0, 3]);
    assert_eq!(dev.code(&["peek", "api", "user=ann"]), 3);
    assert_eq!(dev.code(&["peek", "api", "user=bob"]), 0);
    assert_eq!(dev.code(&["reset", "api", "user=ann"]), 0);
    assert_eq!(dev.code(&["check", "api", "user=ann", "--cost", "2"]), 0);
    assert_eq!(dev.code(&["check", "api", "user=bob", "--cost", "3"]), 3);
}

#[test]
fn a_check_repeated_under_one_id_is_charged_once() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(&file(&folder, "rules.yaml", RULES));
    let check = ["check", "api", "user=ann", "--request-id", "7f3a"];
    assert_eq!((0..5).map(|_| dev.code(&check)).sum::<i32>(), 0);
    assert_eq!(dev.code(&["check", "api", "user=ann"]), 0);
    assert_eq!(dev.code(&["check", "api", "user=ann"]), 3);
}

#[test]
fn an_operator_reads_and_replaces_rules() {
    let folder = tempfile::tempdir().unwrap();
    let rules = file(&folder, "rules.yaml", RULES);
    let dev = Dev::start(&rules);
    let admin = ["--admin", dev.admin.as_str()];
    check_ok(&[&["rules", "status"], &admin[..]].concat(), "version 1");
    check_ok(&[&["rules", "get", "api"], &admin[..]].concat(), "name: two");
    let bad = file(&folder, "bad.yml", "domain: api\nlimits:\n  - { name: x, limit: 0/s }\n");
    check_fails(&[&["rules", "apply", &bad], &admin[..]].concat(), 1, "the old rules stay in force");
    let new = file(&folder, "new.yml", &RULES.replace("2/hour", "3/hour"));
    check_fails(&[&["rules", "apply", &new, "--expect", "9"], &admin[..]].concat(), 1, "rules get");
    check_ok(&[&["rules", "apply", &new, "--expect", "1"], &admin[..]].concat(), "version 2");
    check_ok(&[&["rules", "get", "api"], &admin[..]].concat(), "3/hour");
}

#[test]
fn an_operator_removes_a_domains_rules_and_is_told_where_that_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    for domain in ["api", "web"] {
        file(&folder, &format!("{domain}.yaml"), &RULES.replace("domain: api", &format!("domain: {domain}")));
    }
    let dev = Dev::start(folder.path().to_str().unwrap());
    let remove = |args: &[&str]| operate(&dev.admin, &[&["rules", "remove"], args].concat());
    let (code, said) = remove(&["web", "--expect", "9"]);
    assert!(code == 1 && said.contains("rules get"), "{said}");
    let (code, said) = remove(&["web", "--expect", "1"]);
    assert!(code == 0 && said.contains("version 2") && said.contains("without a limit"), "{said}");
    assert!(!folder.path().join("web.yaml").exists());
    let (code, said) = remove(&["web"]);
    assert!(code == 1 && said.contains("there are: api"), "{said}");
    let (code, said) = remove(&["api"]);
    assert!(code == 1 && said.contains("the last rule file"), "{said}");
}

#[test]
fn an_operator_sees_what_is_lent_and_which_keys_are_asked_for_most_often() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(&file(&folder, "rules.yaml", RULES));
    let (code, said) = operate(&dev.admin, &["leases", "ls", "--domain", "api"]);
    assert!(code == 0 && said.starts_with("0 leases with 0 units out\n"), "{said}");
    let (_, json) = operate(&dev.admin, &["leases", "ls", "--output", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["totals"]["violations"], 0);
    check_fails(&["leases", "ls", "--limit", "0"], 2, "--limit");

    let load = ["bench", &dev.clients, "--attribute", "user=ann", "--requests", "3000", "--warmup", "0s"];
    assert_eq!(run(&load).status.code(), Some(0));
    let (code, said) = operate(&dev.admin, &["keys", "top"]);
    assert!(code == 0 && said.contains("two") && !said.contains("ann"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let (code, said) = operate(&dev.admin, &["keys", "top", "--show-values"]);
    assert!(code == 0 && said.contains("user=ann"), "{said}");
    let (_, json) = operate(&dev.admin, &["keys", "top", "--output", "json"]);
    let told: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&told["sampled_one_in"], &told["keys"][0]["values"]), (&64.into(), &Value::Null));
}

#[test]
fn bench_counts_what_a_node_decides_over_every_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(&file(&folder, "rules.yaml", RULES));
    for (protocol, batch) in [("http", 1), ("grpc", 1), ("grpc-batch", 16), ("rls", 1)] {
        let user = format!("user={protocol}");
        let args = [
            "bench",
            &dev.clients,
            "--protocol",
            protocol,
            "--attribute",
            &user,
            "--requests",
            "50",
            "--warmup",
            "0s",
            "--output",
            "json",
        ];
        let output = run(&args);
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{output:?}"));
        let counts = [&report["allowed"], &report["denied"], &report["unmatched"]]
            .map(|count| count.as_u64().unwrap());
        assert_eq!(counts, [2, 50 * batch - 2, 0], "{protocol}: {report}");
    }
}

#[test]
fn a_port_that_is_taken_is_an_error_that_names_the_flag() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    check_fails(&["dev", "--http", &address, "--admin", "127.0.0.1:0"], 1, "--http");
    check_fails(&["dev", "--http", "127.0.0.1:0", "--admin", &address], 1, "--admin");
}

#[test]
fn a_node_ends_cleanly_on_either_signal() {
    let folder = tempfile::tempdir().unwrap();
    let rules = file(&folder, "rules.yaml", RULES);
    for signal in ["INT", "TERM"] {
        let started = Dev::start(&rules);
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(started.stop(signal), (Some(0), String::new()), "{signal}");
    }
}

#[test]
fn what_is_no_file_is_refused_at_once_wherever_a_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.yaml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    let said = "not a regular file";
    check_fails(&["node", "--config", pipe], 2, said);
    check_fails(&["dev", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--rules", pipe], 2, said);
    check_fails(&["rules", "lint", pipe], 1, said);
    check_fails(&["rules", "lint", "/dev/zero"], 1, said);
    let config = file(&folder, "node.yaml", &format!("key_secret_file: {pipe}\n"));
    check_fails(&["node", "--config", &config], 2, said);
}

#[test]
fn a_server_is_spoken_to_in_plain_http_or_not_at_all_and_credentials_are_not_repeated() {
    for (command, flag) in [(&["check", "api"][..], "--server"), (&["rules", "status"], "--admin")] {
        for url in ["https://127.0.0.1:1", "ftp://127.0.0.1:1"] {
            check_fails(&[command, &[flag, url]].concat(), 2, &format!("{flag}: "));
        }
        let output = run(&[command, &[flag, "http://ann:pass@127.0.0.1:1"]].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains(flag) && !stderr(&output).contains("pass@"), "{output:?}");
    }
    check_fails(&["bench", "https://127.0.0.1:1"], 2, "TARGET: ");
    check_fails(&["bench", "ann:pass@127.0.0.1:1"], 2, "TARGET: a server takes no user");
}

#[test]
fn one_address_for_both_doors_is_refused() {
    check_fails(&["dev", "--http", "127.0.0.1:7999", "--admin", "127.0.0.1:7999"], 2, "--admin");
}

#[test]
fn answers_that_cannot_be_written_are_an_error_and_a_reader_that_left_is_none() {
    for args in [&["node", "--print-default-config"][..], &["--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = leasehold(args).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).contains("writing to standard output"), "{output:?}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = leasehold(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    }
}
