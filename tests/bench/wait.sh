# For the benchmarks beside it, which source it: waiting until a server is there, for so long and no longer.

# answers URL: something there answers with success.
answers() {
  local attempt
  for attempt in $(seq 300); do
    curl -fsS -o /dev/null "$1" 2>/dev/null && return 0
    sleep 0.1
  done
  echo "$1 doesn't answer" >&2
  return 1
}

# listens PORT: something on this machine takes connections there.
listens() {
  local attempt
  for attempt in $(seq 100); do
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return 0
    sleep 0.1
  done
  echo "no server on port $1" >&2
  return 1
}
