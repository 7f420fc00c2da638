# `just` alone lists the recipes. Without just: each is one or two lines to copy.

_list:
    @just --list

# All tests; suites that need Envoy or nginx say so when they are not installed.
test:
    cargo test --workspace

# What a change has to pass, from tools to tests.
ci:
    .ci/run

# Format and lints.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# The crates' documentation.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --open

# A million random requests over HTTP, every status code explained.
million:
    LEASEHOLD_REQUESTS=1000000 cargo test --release -p leasehold-tests --test it -- random_requests --nocapture

# Nanoseconds a decision, bytes a key, then the node beside empty services.
bench: && bench-node
    cargo bench -p leasehold-limit
    cargo bench -p leasehold-shard --bench memory

# Decisions a second and CPU a decision: the node beside an empty tonic service and an empty axum handler.
bench-node:
    tests/bench/run.sh

# Sidecar and node beside Redis with Lua, throttlecrab and Limitador, as far as they are installed, and a unit spent in process.
bench-peers:
    tests/bench/peers.sh

# Leases in larger small worlds than the tests look at: all orders of what can happen. Minutes, and gigabytes of memory.
lease-model:
    LEASEHOLD_MODEL=large cargo test --release -p leasehold-lease --lib -- model --nocapture

# Spending from a lease under every interleaving of threads.
lease-interleavings:
    cargo test -p leasehold-lease --test interleavings

# Nanoseconds a unit spent from a lease, beside governor.
bench-spend:
    cargo bench -p leasehold-lease --bench spend

# Ten minutes (or as many as named) of killed owners and killed, stopped and cut-off sidecars over real processes.
leases minutes="10":
    LEASEHOLD_LEASES_MINUTES={{minutes}} cargo test --release -p leasehold-tests --test it -- leases:: --nocapture

# What leasing costs beside other ways to share a limit, simulated: 12 edges in 3 regions. Fails when leases overshoot.
bench-leases:
    cargo bench -p leasehold-lease --bench leases

# Breaks a real cluster in every way that the scenarios name, one after the other, and reports to target/chaos. 20 minutes.
chaos *scenarios="all":
    cargo build --workspace --bin leasehold-chaos
    target/debug/leasehold-chaos run {{scenarios}}

# 2,000 seeds of whole clusters in virtual time, 120 simulated seconds each: faults, then health. Names each failing seed.
sim seeds="2000" from="0":
    cargo run --release -p leasehold-sim -- sweep --seeds {{seeds}} --from {{from}}

# Ten times as many, from another place each day.
sim-nightly:
    just sim 20000 $(($(date +%j) * 20000))

# Puts each known bug back: in how many of 200 seeds the simulator catches it.
sim-planted seeds="200":
    cargo run --profile planted --features planted -p leasehold-sim -- planted --seeds {{seeds}}

# The real Raft, log and shards of three nodes on simulated network, disks and time: many seeds, then known bugs put back.
sim-raft seeds="300" from="0":
    cd tests/raft && cargo run -- sweep --seeds {{seeds}} --from {{from}} && cargo run -- planted

# Every decoder under a fuzzer, so many seconds each. Builds all of them with coverage counters first: minutes.
fuzz seconds="60":
    tests/fuzz/run {{seconds}}

# Puts known bugs back, one after the other, and sees that the scenario made for each catches it.
chaos-planted *bugs:
    cargo build --workspace --bin leasehold --bin leasehold-chaos --features leasehold-cli/planted --target-dir target/planted
    target/planted/debug/leasehold-chaos planted --bin target/planted/debug/leasehold {{bugs}}
