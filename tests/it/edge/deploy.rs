//! The files of `deploy/edge` that no test runs: they can be read, and the configurations in them are good.

use std::fs;
use std::process::{Command, Output};

use leasehold_tests::binary::leasehold;
use leasehold_tests::example::example;
use serde_json::Value;

/// What the program says of a configuration.
fn checked(text: &str) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let config = folder.path().join("edge.yaml");
    fs::write(&config, text).expect("the temporary folder can be written to");
    Command::new(leasehold())
        .args(["edge", "--check-config", "--config"])
        .arg(config)
        .output()
        .expect("leasehold can be started")
}

fn documents(file: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&example(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn the_sidecars_configurations_are_good() {
    let of_pod = documents("edge/kubernetes.yaml")
        .iter()
        .find_map(|document| document["data"]["edge.yaml"].as_str().map(str::to_owned))
        .expect("the manifest holds a configuration");
    for text in [example("edge/edge.yaml"), of_pod] {
        let said = checked(&text);
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }
    assert_eq!(checked("upstreams: []\n").status.code(), Some(2));
}

#[test]
fn the_manifests_mount_what_the_configurations_name() {
    let pod = documents("edge/kubernetes.yaml")
        .into_iter()
        .find(|document| document["kind"] == "Deployment")
        .expect("the manifest holds a deployment");
    let pod = &pod["spec"]["template"]["spec"];
    let edge = &pod["initContainers"][0];
    assert_eq!(edge["restartPolicy"], "Always", "a sidecar ends after what it serves");
    let mounts = |container: &Value| container["volumeMounts"].to_string().contains("/run/leasehold");
    assert!(mounts(edge) && mounts(&pod["containers"][0]), "{pod}");

    let compose = &documents("edge/compose.yaml")[0]["services"];
    for service in ["edge", "envoy"] {
        let volumes = compose[service]["volumes"].to_string();
        assert!(volumes.contains("socket:/run/leasehold"), "{service}: {volumes}");
    }
    assert!(example("edge/envoy.yaml").contains("/run/leasehold/edge.sock"));
}
