#!/usr/bin/env bash
# The node beside empty services: decisions a second, latency, and the server's CPU a decision, in one run on one machine.
# The server has core 0 for itself, the load generator core 1. Absolute figures drift with the machine; ratios hold.
#
#   ROUNDS=3 SECONDS_EACH=5 tests/bench/run.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
source tests/bench/wait.sh
rounds=${ROUNDS:-3}
seconds=${SECONDS_EACH:-5}
port=${PORT:-7690}
work=$(mktemp -d)
server=

stop() {
  [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
  server=
}
trap 'stop; rm -rf "$work"' EXIT

cargo build --quiet --release --bin leasehold
cargo build --quiet --release -p leasehold-tests --example floor
leasehold=target/release/leasehold
floor=target/release/examples/floor

# One counter a key, never over its limit: what is measured is the way of a decision, not of a refusal.
cat >"$work/rules.yaml" <<YAML
domain: bench
limits:
  - { name: per-key, per: [key], limit: 1000000/second }
YAML
cat >"$work/node.yaml" <<YAML
clients: { listen: '127.0.0.1:$port' }
admin: { listen: '127.0.0.1:$((port + 1))' }
rules: '$work/rules.yaml'
log: { level: warn }
YAML

start() {
  case $1 in
    node) taskset -c 0 "$leasehold" node --config "$work/node.yaml" & ;;
    *) taskset -c 0 "$floor" "$1" "127.0.0.1:$port" & ;;
  esac
  server=$!
  listens "$port"
}

# A number of the report by its name; the first of several.
field() { grep -o "\"$1\": *[0-9.]*" "$work/report.json" | head -n 1 | sed 's/.*: *//'; }

# measure SERVER PROTOCOL CONNECTIONS STREAMS BATCH: one line of decisions/s, p50, p99, µs of CPU a decision.
measure() {
  start "$1"
  taskset -c 1 "$leasehold" --output json bench "http://127.0.0.1:$port" --cpu-of "$server" --protocol "$2" \
    --connections "$3" --streams "$4" --batch "$5" --domain bench --attribute 'key=caller-{key}' \
    --warmup 1s --duration "${seconds}s" >"$work/report.json"
  stop
  echo "$(field decisions_per_s) $(field p50) $(field p99) $(field server_cpu_s_per_million_decisions)"
}

# The line in the middle by CPU a decision.
median() { sort -g -k4 | sed -n "$(((rounds + 1) / 2))p"; }

row() {
  local name=$1 empty=$2
  shift 2
  : >"$work/empty"
  : >"$work/node"
  # Taken in turns, so that a machine that grows slower is unfair to neither.
  for _ in $(seq "$rounds"); do
    measure "$empty" "$@" >>"$work/empty"
    measure node "$@" >>"$work/node"
  done
  printf '%s %s %s %s\n' "$name" "$*" "$(median <"$work/empty")" "$(median <"$work/node")" | awk '{
    printf "| %s | %s×%s×%s | %.0f k | %.0f / %.0f | %.2f | %.0f k | %.0f / %.0f | %.2f | %.2f |\n",
      $1, $3, $4, $5, $6 / 1000, $7, $8, $9, $10 / 1000, $11, $12, $13, $13 / $9 }'
}

echo "commit $(git rev-parse --short HEAD), $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2- | xargs), medians of $rounds × ${seconds} s"
echo
echo "| protocol | connections×streams×batch | empty: decisions/s | p50 / p99 µs | CPU µs | node: decisions/s | p50 / p99 µs | CPU µs | node ÷ empty |"
echo "|---|---|--:|--:|--:|--:|--:|--:|--:|"
row rls grpc rls 4 64 1
row grpc grpc grpc 4 64 1
row grpc-batch grpc grpc-batch 4 16 16
row http http http 16 1 1
