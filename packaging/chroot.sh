#!/bin/sh
# Runs packaging/fresh.sh in a new Debian of its own, made by debootstrap, where there is no Docker. As root.
#
#     packaging/chroot.sh bookworm wheel      also trixie or sid, also source
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
root=$(mktemp -d)
trap 'umount "$root/proc" "$root/lbarn" 2>/dev/null || true; rm -rf --one-file-system "$root"' EXIT
debootstrap --variant=minbase "$1" "$root" >"$root.log" 2>&1 || { cat "$root.log" >&2; exit 1; }
cp /etc/resolv.conf "$root/etc/"
mkdir -p "$root/lbarn" "$root/usr/local/share/ca-certificates"
find /usr/local/share/ca-certificates -name '*.crt' -exec cp {} "$root/usr/local/share/ca-certificates" \;  # the house's own
mount -t proc proc "$root/proc"
mount --bind "$here" "$root/lbarn"
chroot "$root" /lbarn/packaging/fresh.sh "$2"
