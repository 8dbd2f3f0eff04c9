#!/bin/sh
# emulate.sh ROOT COMMAND…: a command of an arm64 root file system, by qemu, in namespaces that end with it.
# binfmt_misc is mounted in a user namespace of its own (Linux 6.7 and newer), so the machine's settings stay as they are.
set -e
exec unshare --user --map-root-user --mount --pid --fork sh -c '
set -e
root=$1; shift
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
magic="\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\xb7\\x00"
mask="\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff"
printf "%s" ":arm64:M::$magic:$mask:/usr/bin/qemu-aarch64-static:F" > /proc/sys/fs/binfmt_misc/register
mkdir -p "$root/proc" "$root/dev" "$root/sys" "$root/tmp"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
set +e
chroot "$root" "$@"  # not as the first process of its namespace, whom fatal signals do not reach
exit $?' sh "$@"
