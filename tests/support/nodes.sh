#!/usr/bin/env bash
# Nodes n1, n2, ... on this machine: each is a set of namespaces of its own (network, host name, IPC, mounts with a /dev/shm), and all
# are on one bridge. To Open MPI they are nodes like any others. They share the cores, /tmp and every other folder.
#
#   nodes.sh up N [RATE]           N nodes, links of RATE (tc(8): 1gbit; without it: as fast as memory)
#   nodes.sh exec NODE COMMAND...  a command on a node
#   nodes.sh mpirun ARGS...        Open MPI's mpirun on n1, which reaches the others
#   nodes.sh links                 what TCP knows of each connection between nodes (TCP_INFO, by ss)
#   nodes.sh rate NODE RATE        links of RATE for one node; none: no limit
#   nodes.sh cut NODE              takes the node's link down
#   nodes.sh freeze NODE           stops the ranks on a node, and not what started them
#   nodes.sh kill NODE             ends every process of the node at once
#   nodes.sh down                  removes all of it
#
# Needs root and iproute2; exit status 77 where they are not to be had.
#
# Connections use the congestion control of CXTRAIN_CONGESTION, or cubic.
#
# With CXTRAIN_NODE_CORES=own at `up` each node has an equal part of the cores for itself; if there are more nodes than cores, each node
# has one core, and equally many nodes share a core. The system otherwise likes to wake the network threads of two nodes on one core,
# which then computes less than the other one.
#
# A link of RATE is a token bucket at each of its ends. After an idle time (a step's computing) a bucket is full, and the first 80 KB
# of a step cross the link at once: 0.65 ms less at 1 Gbit, 6.5 ms less at 0.1 Gbit. RATE counts headers, which are 4.4 % of full
# frames. Links add no latency to the kernel's own (about 15 us for a small message of MPI).
set -euo pipefail

self=$(readlink -f "${BASH_SOURCE[0]}")
state=/run/cxtrain-nodes
bridge=cxt-br
network=10.79.0
# The smallest burst that fits: TCP hands down packets of up to 64 KB (69 KB with the headers of their frames) for the device to cut. A
# bucket that is smaller cuts them itself, which costs the nodes' cores 3 ms for 2.7 MB, and a link of 10 Gbit then carries 4.4.
# At 10 Gbit 80 KB are also 65 us, about as long as the bucket's timer may be late.
burst=80kb

die() {
  echo "nodes: $*" >&2
  exit 2
}

# holder NODE: the process that keeps its namespaces.
holder() { cat "$state/$1.pid" 2> /dev/null || die "there is no node '$1'"; }

# is_up NODE: its holder lives. The number in the file may belong to another process by now.
is_up() {
  local pid
  pid=$(cat "$state/$1.pid")
  [ "$(tr '\0' ' ' 2> /dev/null < "/proc/$pid/cmdline")" = "sleep infinity " ] &&
    [ "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" ]
}

enter() {
  local pid
  pid=$(holder "$1")
  local own_cores=()
  [ ! -e "$state/$1.cores" ] || own_cores=(taskset --cpu-list "$(cat "$state/$1.cores")")
  exec "${own_cores[@]}" nsenter --target "$pid" --net --uts --ipc --mount --root --wd="$PWD" -- "${@:2}"
}

# processes NODE: all that are on it, its holder last.
processes() {
  local pid own
  pid=$(holder "$1")
  own=$(readlink "/proc/$pid/ns/net")
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/ns/net" 2> /dev/null)" = "$own" ] && [ "${process#/proc/}" != "$pid" ] && echo "${process#/proc/}"
  done
  echo "$pid"
}

up_node() {
  local i=$1 rate=$2
  local node=n$i link=cxt-v$i
  # The holder says that it is ready by a line, once everything of its own is mounted.
  mkfifo "$state/ready"
  unshare --net --uts --ipc --mount bash -c "
    hostname $node
    mount --make-rprivate /
    mount -t tmpfs tmpfs /dev/shm
    mount --bind $state/hosts /etc/hosts
    echo \$\$ > $state/ready
    exec sleep infinity" < /dev/null > /dev/null 2>&1 &
  read -r -t 20 pid < "$state/ready" || die "node $node does not come up"
  rm "$state/ready"
  echo "$pid" > "$state/$node.pid"
  ip link add "$link" type veth peer name eth0 netns "$pid"
  ip link set "$link" master "$bridge" up
  nsenter --target "$pid" --net ip addr add "$network.$i/24" dev eth0 noprefixroute
  nsenter --target "$pid" --net ip link set eth0 up
  nsenter --target "$pid" --net ip link set lo up
  # What clusters have. The default of a virtual machine's kernel may be BBR, which without the fq scheduler halves the speed of fast
  # links. By the route, as a namespace's default may be one only that the machine allows to all.
  local route=("$network.0/24" dev eth0 src "$network.$i")
  nsenter --target "$pid" --net ip route add "${route[@]}" congctl "${CXTRAIN_CONGESTION:-cubic}" 2> /dev/null ||
    nsenter --target "$pid" --net ip route add "${route[@]}"
  [ -z "$rate" ] || set_rate "$node" "$rate"
}

# set_rate NODE RATE: `none` takes the limit away.
set_rate() {
  if [ "$2" = none ]; then
    nsenter --target "$(holder "$1")" --net tc qdisc del dev eth0 root 2> /dev/null || true
    tc qdisc del dev "cxt-v${1#n}" root 2> /dev/null || true
    return
  fi
  local bucket=(root tbf rate "$2" burst "$burst" latency 50ms)
  nsenter --target "$(holder "$1")" --net tc qdisc replace dev eth0 "${bucket[@]}"
  tc qdisc replace dev "cxt-v${1#n}" "${bucket[@]}"
}

skip() {
  echo "nodes: skipped, $*"
  exit 77
}

up() {
  local count=$1 rate=${2:-} tool
  [ "$(id -u)" = 0 ] || skip "needs root"
  for tool in ip tc nsenter unshare; do
    command -v "$tool" > /dev/null || skip "needs iproute2 and util-linux"
  done
  unshare --net --uts --ipc --mount mount -t tmpfs tmpfs /dev/shm 2> /dev/null || skip "the system allows no namespaces"
  if [ -z "${CXTRAIN_NODES_OF_SLURM:-}" ] && pgrep -f "slurmctld .*/run/cxtrain-slurm/" > /dev/null; then
    die "slurm/testcluster has them"
  fi
  down
  ip link add "$bridge" type bridge 2> /dev/null || skip "the system has no bridges"
  ip link add cxt-probe type veth peer name cxt-probe2 2> /dev/null || skip "the system has no virtual links"
  ip link del cxt-probe
  ip addr add "$network.254/24" dev "$bridge"
  ip link set "$bridge" up
  mkdir -p "$state"
  cp /etc/hosts "$state/hosts"
  for i in $(seq "$count"); do echo "$network.$i n$i" >> "$state/hosts"; done
  # What mpirun starts its daemons with, as it would with ssh: HOST COMMAND.
  # shellcheck disable=SC2016  # the agent's own variables
  printf '#!/bin/bash\nhost=$1\nshift\nexec %q exec "$host" bash -c "$*"\n' "$self" > "$state/agent"
  chmod +x "$state/agent"
  for i in $(seq "$count"); do up_node "$i" "$rate"; done
  if [ "${CXTRAIN_NODE_CORES:-}" = own ]; then
    for i in $(seq "$count"); do cores_of "$i" "$count" > "$state/n$i.cores"; done
  fi
}

# cores_of NUMBER COUNT: the cores of node n<NUMBER> of COUNT nodes.
cores_of() {
  local each=$(($(nproc) / $2)) first
  if [ "$each" -ge 1 ]; then
    first=$((($1 - 1) * each))
    echo "$first-$((first + each - 1))"
  else
    echo $((($1 - 1) % $(nproc)))
  fi
}

# links: for each connection, seen from either end, `NODE ss's line`. Its counters are those since the connection began.
links() {
  local file node
  for file in "$state"/n*.pid; do
    node=$(basename "$file" .pid)
    nsenter --target "$(cat "$file")" --net ss --tcp --info --numeric --processes --no-header --oneline state established \
      dst "$network.0/24" and not dst "$network.${node#n}" | sed "s/^/$node /; s/ *$//"
  done
}

kill_node() { processes "$1" | xargs -r kill -KILL 2> /dev/null || true; }

freeze_ranks() {
  processes "$1" | while read -r process; do
    [ "$(cat "/proc/$process/comm" 2> /dev/null)" = cxtrain_mpi ] && kill -STOP "$process"
  done
  true
}

down() {
  for file in "$state"/n*.pid; do
    [ -e "$file" ] || continue
    local node
    node=$(basename "$file" .pid)
    ! is_up "$node" || kill_node "$node"
    ip link del "cxt-v${node#n}" 2> /dev/null || true
  done
  ip link del "$bridge" 2> /dev/null || true
  rm -rf "$state"
}

case ${1:-} in
  up) up "${@:2}" ;;
  exec) enter "${@:2}" ;;
  mpirun)
    # The session's folder is the node's own. Interfaces are named, as on a cluster with several. mpirun asks its daemons whether
    # they live after two seconds of silence, and not after five minutes. Open MPI 5 reads the settings of mpirun under PRRTE's names.
    export OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent="$state/agent" PRTE_MCA_plm=ssh PRTE_MCA_plm_ssh_agent="$state/agent"
    for mca in OMPI_MCA PRTE_MCA; do
      export ${mca}_ras=^slurm ${mca}_oob_tcp_if_include=eth0
      export ${mca}_oob_tcp_keepalive_time=2 ${mca}_oob_tcp_keepalive_intvl=1 ${mca}_oob_tcp_keepalive_probes=3
    done
    export OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_mpi_yield_when_idle=1
    export TMPDIR=/dev/shm OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    enter n1 mpirun --oversubscribe --bind-to none -x OMP_NUM_THREADS=1 "${@:2}"
    ;;
  links) links ;;
  rate) set_rate "$2" "$3" ;;
  cut) nsenter --target "$(holder "$2")" --net ip link set eth0 down ;;
  freeze) freeze_ranks "$2" ;;
  kill) kill_node "$2" ;;
  down) down ;;
  *)
    sed -n '2,16s/^# \{0,1\}//p' "$self"
    exit 2
    ;;
esac
