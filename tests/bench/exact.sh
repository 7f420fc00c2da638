#!/usr/bin/env bash
# Exact checks, each on the disks of a majority before its answer: three nodes of a cluster beside one Redis that syncs
# every write and has no replica. One generator, one machine, one run; then memory at a million counters, and idle load.
#
#   SECONDS_EACH=5 ROUNDS=3 tests/bench/exact.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
source tests/bench/wait.sh
rounds=${ROUNDS:-3}
seconds=${SECONDS_EACH:-5}
port=${PORT:-7800}
work=$(mktemp -d "${BENCH_DIR:-target}/exact.XXXXXX")
pids=()

stop() {
  local pid
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  pids=()
}
trap 'stop; rm -rf "$work"' EXIT

cargo build --quiet --release --bin leasehold
cargo build --quiet --release -p leasehold-tests --example load
leasehold=target/release/leasehold
load=target/release/examples/load

# One counter a key, never over its limit: what is measured is the way of a grant, not of a refusal.
cat >"$work/rules.yaml" <<YAML
domain: bench
limits:
  - { name: per-key, per: [key], limit: 1000000/second, lease: never }
YAML

start_cluster() {
  local node base
  for node in 0 1 2; do
    base=$((port + node * 10))
    cat >"$work/node$node.yaml" <<YAML
clients: { listen: '127.0.0.1:$base' }
admin: { listen: '127.0.0.1:$((base + 2))' }
rules: '$work/rules.yaml'
log: { level: warn }
cluster:
  name: bench
  node: node$node
  data: '$work/data$node'
  seeds: ['127.0.0.1:$((port + 1))', '127.0.0.1:$((port + 11))', '127.0.0.1:$((port + 21))']
  peers: { listen: '127.0.0.1:$((base + 1))' }
  gossip: { listen: '127.0.0.1:$((base + 3))' }
YAML
    "$leasehold" node --config "$work/node$node.yaml" 2>>"$work/node$node.log" &
    pids+=($!)
  done
  for node in 0 1 2; do answers "http://127.0.0.1:$((port + node * 10))/readyz"; done
}

start_redis() {
  redis-server --port "$port" --bind 127.0.0.1 --dir "$work" --appendonly yes --appendfsync always --save '' \
    --daemonize no --loglevel warning >/dev/null &
  pids+=($!)
  local attempt
  for attempt in $(seq 100); do redis-cli -p "$port" ping >/dev/null 2>&1 && return 0; sleep 0.1; done
  echo "redis-server doesn't answer" >&2
  return 1
}

row() { printf '%-34s' "$1"; "$load" "${@:2}" --seconds "$seconds" --pids "$(IFS=,; echo "${pids[*]}")"; }

cluster="127.0.0.1:$port,127.0.0.1:$((port + 10)),127.0.0.1:$((port + 20))"
for ((round = 1; round <= rounds; round++)); do
  start_redis
  row "redis lua, fsync always, 4 x 64" redis "127.0.0.1:$port"
  row "redis lua, fsync always, 50 x 1" redis "127.0.0.1:$port" --connections 50 --streams 1
  stop
  rm -rf "$work"/data* "$work"/appendonlydir
  start_cluster
  row "leasehold 3 nodes, 4 x 64" grpc "$cluster"
  row "leasehold 3 nodes, 50 x 1" grpc "$cluster" --connections 50 --streams 1
  row "leasehold 3 nodes, batches of 16" grpc "$cluster" --streams 16 --batch 16
  if ((round == rounds)); then
    sleep 5
    idle() { for pid in "${pids[@]}"; do sed 's/.*) //' "/proc/$pid/stat" | cut -d' ' -f12,13; done | awk '{t += $1 + $2} END {print t}'; }
    before=$(idle); sleep 20; after=$(idle)
    awk -v t=$((after - before)) 'BEGIN {printf "idle: %.2f %% of a core a node\n", t / 20 / 3}'
    "$load" grpc "$cluster" --streams 16 --batch 256 --keys 1000000 --seconds 30
    for pid in "${pids[@]}"; do awk '/VmRSS/ {printf "resident: %d MB\n", $2 / 1024}' "/proc/$pid/status"; done
    curl -fsS "http://127.0.0.1:$((port + 2))/metrics" | grep -E '^leasehold_keys'
  fi
  stop
  rm -rf "$work"/data*
done
