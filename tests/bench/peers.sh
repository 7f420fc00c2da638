#!/usr/bin/env bash
# What a decision costs here and at peers, in one run on one machine, under one load: decisions a second, latency, and the
# processor time of the server that is asked. Servers have core 0 for themselves, the load has core 1. Absolute figures
# drift with the machine; ratios hold. What isn't installed is skipped, and said so.
#
#   ROUNDS=3 SECONDS_EACH=3 KEYS=1000 tests/bench/peers.sh
#
# Peers are looked for in PATH, or where PEERS_BIN says: redis-server, throttlecrab-server (cargo install
# throttlecrab-server), limitador-server (built from its repository).
set -euo pipefail
cd "$(dirname "$0")/../.."
source tests/bench/wait.sh
rounds=${ROUNDS:-3}
seconds=${SECONDS_EACH:-3}
# So few that leases pay: each is asked a hundred times a second or more.
keys=${KEYS:-1000}
port=${PORT:-7900}
PATH=${PEERS_BIN:+$PEERS_BIN:}$PATH
work=$(mktemp -d "${BENCH_DIR:-target}/peers.XXXXXX")
# The server that is asked, and what stands behind it.
server=
others=()

stop() {
  local pid
  for pid in $server "${others[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in $server "${others[@]}"; do wait "$pid" 2>/dev/null || true; done
  server=
  others=()
}
trap 'stop; rm -rf "$work"' EXIT

cargo build --quiet --release --bin leasehold
cargo build --quiet --release -p leasehold-tests --example load --example floor
leasehold=target/release/leasehold
load=target/release/examples/load
floor=target/release/examples/floor

# One counter a key, never over its limit: what is measured is the way of a grant, not of a refusal.
cat >"$work/rules.yaml" <<YAML
domain: bench
limits:
  - { name: per-key, per: [key], limit: 1000000/second }
YAML
cat >"$work/limitador.yaml" <<YAML
- namespace: bench
  max_value: 1000000
  seconds: 1
  conditions: []
  variables: ["descriptors[0].key"]
YAML

# node NAME BASE [SEEDS]: a node at BASE, of a cluster if there are seeds. Sets `started`.
node() {
  cat >"$work/$1.yaml" <<YAML
clients: { listen: '127.0.0.1:$2' }
admin: { listen: '127.0.0.1:$(($2 + 2))' }
rules: '$work/rules.yaml'
log: { level: error }
YAML
  [ -z "${3:-}" ] || cat >>"$work/$1.yaml" <<YAML
cluster:
  name: bench
  node: $1
  data: '$work/data-$1'
  seeds: [$3]
  peers: { listen: '127.0.0.1:$(($2 + 1))' }
  gossip: { listen: '127.0.0.1:$(($2 + 3))' }
YAML
  taskset -c 0 "$leasehold" node --config "$work/$1.yaml" 2>>"$work/$1.log" &
  started=$!
}

# Three nodes of a cluster, the first of which is asked.
cluster() {
  local seeds="'127.0.0.1:$((port + 1))', '127.0.0.1:$((port + 11))', '127.0.0.1:$((port + 21))'"
  rm -rf "$work"/data-*
  node one "$port" "$seeds"
  server=$started
  node two "$((port + 10))" "$seeds"
  others+=("$started")
  node three "$((port + 20))" "$seeds"
  others+=("$started")
  local base
  for base in "$port" $((port + 10)) $((port + 20)); do answers "http://127.0.0.1:$base/readyz"; done
}

# A node, and a sidecar in front of it that is asked.
sidecar() {
  node alone "$((port + 10))"
  others+=("$started")
  answers "http://127.0.0.1:$((port + 10))/readyz"
  taskset -c 0 "$leasehold" edge --upstream "http://127.0.0.1:$((port + 10))" --http "127.0.0.1:$port" \
    --admin "127.0.0.1:$((port + 2))" 2>>"$work/edge.log" &
  server=$!
  answers "http://127.0.0.1:$((port + 2))/readyz"
}

start() {
  case $1 in
    floor-grpc) taskset -c 0 "$floor" grpc "127.0.0.1:$port" & server=$! ;;
    floor-http) taskset -c 0 "$floor" http "127.0.0.1:$port" & server=$! ;;
    node) node alone "$port"; server=$started ;;
    cluster) cluster ;;
    sidecar) sidecar ;;
    redis)
      taskset -c 0 redis-server --port "$port" --bind 127.0.0.1 --dir "$work" --save '' --appendonly no \
        --daemonize no --loglevel warning >/dev/null & server=$! ;;
    throttlecrab)
      taskset -c 0 throttlecrab-server --grpc --grpc-host 127.0.0.1 --grpc-port "$port" --http --http-host 127.0.0.1 \
        --http-port "$((port + 1))" --store-capacity 1000000 --log-level error >/dev/null 2>&1 & server=$! ;;
    limitador)
      taskset -c 0 limitador-server --rls-ip 127.0.0.1 --rls-port "$port" --http-ip 127.0.0.1 \
        --http-port "$((port + 1))" "$work/limitador.yaml" memory >/dev/null 2>&1 & server=$! ;;
  esac
  listens "$port"
}

# rows: TITLE|SERVER|PROGRAM THAT IT NEEDS|PROTOCOL|PORT|CONNECTIONS|STREAMS
rows() {
  cat <<ROWS
empty tonic service|floor-grpc||rls|$port|4|64
leasehold edge, RLS|sidecar||rls|$port|4|64
leasehold node of three, RLS|cluster||rls|$port|4|64
leasehold node alone, RLS|node||rls|$port|4|64
throttlecrab, gRPC|throttlecrab|throttlecrab-server|throttlecrab|$port|4|64
limitador, RLS|limitador|limitador-server|rls|$port|4|64
redis, token bucket in Lua|redis|redis-server|redis|$port|4|64
empty axum handler|floor-http||http|$port|16|1
leasehold edge, HTTP|sidecar||http|$port|16|1
leasehold node alone, HTTP|node||http|$port|16|1
throttlecrab, HTTP|throttlecrab|throttlecrab-server|throttlecrab-http|$((port + 1))|16|1
ROWS
}

# measure ROW FILE: one line of decisions/s, p50, p99 in ms, µs of CPU a decision, and with what stands behind.
measure() {
  local title name needs protocol at connections streams
  IFS='|' read -r title name needs protocol at connections streams <<<"$1"
  start "$name"
  taskset -c 1 "$load" "$protocol" "127.0.0.1:$at" --connections "$connections" --streams "$streams" --keys "$keys" \
    --seconds "$seconds" --pids "$server" --others "$(IFS=,; echo "${others[*]:-}")" >"$work/line" \
    && awk '{print $1, $4, $7, $9, $14}' "$work/line" >>"$2"
  stop
}

missing() {
  local needs
  needs=$(cut -d'|' -f3 <<<"$1")
  [ -n "$needs" ] && ! command -v "$needs" >/dev/null
}

mapfile -t table < <(rows)
echo "commit $(git rev-parse --short HEAD), $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2- | xargs)," \
  "medians of $rounds × ${seconds} s, $keys keys, load before $(cut -d' ' -f1 /proc/loadavg)"
echo
# Taken in turns, so that a machine that grows slower is unfair to nobody.
for ((round = 1; round <= rounds; round++)); do
  for index in "${!table[@]}"; do
    missing "${table[$index]}" || measure "${table[$index]}" "$work/row$index" || echo "failed: ${table[$index]%%|*}" >&2
  done
done
echo "| server | connections × streams | decisions/s | p50 / p99 µs | CPU µs | with its owners |"
echo "|---|---|--:|--:|--:|--:|"
for index in "${!table[@]}"; do
  IFS='|' read -r title name needs protocol at connections streams <<<"${table[$index]}"
  if missing "${table[$index]}"; then
    echo "| $title | skipped: needs $needs | | | | |"
  elif [ -s "$work/row$index" ]; then
    many=$(wc -l <"$work/row$index")
    sort -g -k4 "$work/row$index" | sed -n "$(((many + 1) / 2))p" \
      | awk -v title="$title" -v shape="$connections × $streams" '{
          printf "| %s | %s | %.0f k | %.0f / %.0f | %.2f | %.2f |\n", title, shape, $1 / 1000, $2 * 1000, $3 * 1000, $4, $5 }'
  else
    echo "| $title | failed | | | | |"
  fi
done
echo
taskset -c 0 cargo bench --quiet -p leasehold-lease --bench spend
