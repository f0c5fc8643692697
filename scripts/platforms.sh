#!/usr/bin/env bash
# Runs the README's two commands, scripts/quickstart.sh and scripts/test.sh, on bare Debian systems: a fresh clone of HEAD in a
# chroot that debootstrap makes, below a folder of mode 700. As root; needs debootstrap and no container engine. Takes about 20
# minutes a system on 2 cores.
#
#   scripts/platforms.sh [--folder DIR] [--all] [SYSTEM ...]
#
#   SYSTEM         bookworm (Debian 12: g++ 12, Open MPI 4.1, Catch2 2), trixie (Debian 13: g++ 14, Open MPI 5.0, Catch2 3),
#                  bookworm-cuda (with this machine's /usr/local/cuda); default: the first two
#   --folder DIR   keeps the systems there, for the next time; default: a temporary folder that is removed at the end
#   --all          scripts/test.sh --all
#
# Exit status: 0 when all passed. The last lines of each command's output are printed; the whole is in DIR/SYSTEM.log.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=
tier=
systems=()

die() {
  echo "platforms: $*" >&2
  exit 2
}

while (($# > 0)); do
  case $1 in
    --folder)
      folder=${2:?--folder needs a value}
      shift
      ;;
    --all) tier=--all ;;
    bookworm | trixie | bookworm-cuda) systems+=("$1") ;;
    -h | --help)
      sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *) die "unknown argument $1 (bookworm, trixie, bookworm-cuda, --folder DIR, --all)" ;;
  esac
  shift
done
((${#systems[@]} > 0)) || systems=(bookworm trixie)
[[ $(id -u) == 0 ]] || die "needs root, for chroot"
command -v debootstrap > /dev/null || die "needs debootstrap (Debian: apt-get install debootstrap)"
if [[ -z $folder ]]; then
  folder=$(mktemp -d)
  trap 'rm -rf --one-file-system "$folder"' EXIT
else
  mkdir -p "$folder"
fi

# Where a system has its clone: below a folder of mode 700, as that of a user.
home=/srv/private

# inside <system> <command>: in the system's root and in a mount namespace of its own, so that nothing stays mounted.
inside() {
  local system=$folder/$1
  # shellcheck disable=SC2016  # $1 to $3 are the inner shell's
  unshare --mount --pid --fork bash -c '
    set -e
    mount --bind "$1" "$1"  # emulated nodes and Slurm make mount namespaces, for which the root has to be a mount
    mount -t proc proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount --rbind /dev "$1/dev"
    mount -t tmpfs tmpfs "$1/dev/shm"
    if [[ -d $1/usr/local/cuda ]]; then mount --bind -o ro /usr/local/cuda "$1/usr/local/cuda"; fi
    exec chroot "$1" env -i HOME="$3" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
      bash -c "$2"' inside "$system" "$2" "$home"
}

make_system() {
  local system=$folder/$1
  if [[ ! -e $system/made ]]; then
    debootstrap --variant=minbase --include=ca-certificates,git "${1%-cuda}" "$system" || return
    if [[ $1 == *-cuda ]]; then
      [[ -d /usr/local/cuda ]] || die "$1: there is no /usr/local/cuda here"
      mkdir -p "$system/usr/local/cuda"
    fi
    touch "$system/made"
  fi
  # What this machine needs to reach the packages: name servers, certificates, pip's settings.
  local file
  for file in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt /etc/pip.conf; do
    if [[ -e $file ]]; then cp -L "$file" "$system$file"; fi
  done
  # As an installed Debian has it: without the machine's name, each start of MPI waits 5 s for the name server.
  printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$(hostname)" > "$system/etc/hosts"
  rm -rf "${system:?}$home"
  mkdir -m 700 "$system$home"
  git clone --quiet "$root" "$system$home/cxtrain"
}

failed=0
for system in "${systems[@]}"; do
  log=$folder/$system.log
  make_system "$system" > "$log" 2>&1 || {
    tail -n 20 "$log" >&2
    die "$system cannot be made"
  }
  for command in quickstart.sh "test.sh $tier"; do
    began=$SECONDS
    status=0
    inside "$system" "cd $home/cxtrain && scripts/$command" >> "$log" 2>&1 || status=$?
    ((status == 0)) || failed=1
    echo "== $system: scripts/$command: status $status after $((SECONDS - began)) s"
    tail -n 5 "$log"
  done
done
exit "$failed"
