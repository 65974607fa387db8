#!/bin/bash
# The run and hostile suites on a machine of its own: Debian's cloud kernel under qemu, cgroup v2 alone, ext4 with
# project
# quotas below every test, XFS with them beside it. `make test-vm [T=pattern]` calls it.
# usage: test/vm/run.sh BUILD [PATTERN]     VM_SECONDS=14400 VM_MEMORY_MB=3072; KEEP=1 keeps the disks
# The root file system is made once, from packages, and never written to; each run gets its programs, its tests and
# empty disks. What the tests print comes out of the second serial port, their logs out of a disk (BUILD/vm/logs).
set -eu
BUILD=$(realpath "$1") PATTERN=${2-}
cd "$(dirname "$0")/../.."
VM=$BUILD/vm
PACKAGES=linux-image-cloud-amd64,initramfs-tools,kmod,mount,iproute2,nftables,curl,jq,procps,strace,tmux,ripgrep
PACKAGES+=,openssl,ca-certificates
PACKAGES+=,netbase,libjansson4,libssl3,libyaml-0-2,libsqlite3-0,libcurl4,e2fsprogs,xfsprogs,btrfs-progs,python3-minimal
[ "$(id -u)" = 0 ] || { echo 'make test-vm needs root, to make the file systems' >&2; exit 1; }
[ "$(uname -m)" = x86_64 ] || { echo 'make test-vm is for x86_64' >&2; exit 1; }
umask 022
mkdir -p "$VM"

make_root() { # as new as the list of packages
    local suite tar
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    [ "$(cat "$VM/root.of" 2> /dev/null)" != "$suite $PACKAGES" ] || return 0
    echo "making the machine's root file system ($suite); this is done once"
    rm -rf "$VM/root" "$VM/root.of"
    mkdir "$VM/root"
    tar=$VM/root.tar
    mmdebstrap --quiet --variant=apt --include="$PACKAGES" "$suite" "$tar" > "$VM/root.log" 2>&1 ||
        { cat "$VM/root.log" >&2; exit 1; }
    tar -xf "$tar" -C "$VM/root" --exclude='./dev/*'
    rm "$tar"
    mkdir -p "$VM/root/cubby" "$VM/root/xfs"
    printf '#!/bin/sh\nmount /dev/vdb /cubby\nexec /cubby/test/vm/init.sh\n' > "$VM/root/sbin/init-cubby"
    chmod 755 "$VM/root/sbin/init-cubby"
    mv "$VM"/root/boot/vmlinuz-* "$VM/vmlinuz"
    mv "$VM"/root/boot/initrd.img-* "$VM/initrd"
    mke2fs -q -t ext4 -O ^has_journal -d "$VM/root" "$VM/root.ext4" 2G > /dev/null 2>&1
    rm -rf "$VM/root"
    echo "$suite $PACKAGES" > "$VM/root.of"
}

make_tree() { # what is tested
    local tree=$VM/tree
    rm -rf "$tree" "$VM/tree.ext4"
    mkdir -p "$tree/test" "$tree/build/test" "$tree/build/asan/unit/backend/jail"
    cp -r test/lib test/unit test/run test/hostile test/vm "$tree/test/"
    cp -r man README.md "$tree/"
    cp "$BUILD/cubbyd" "$BUILD/cubby" "$BUILD/cubby-runner" "$BUILD/seccomp-gen" "$tree/build/"
    cp "$BUILD/cubby-runner" "$tree/build/asan/"
    cp "$BUILD"/test/* "$tree/build/test/"
    # the driver looks there; these are the ordinary build
    cp "$BUILD"/unit/backend/jail/jail_test "$tree/build/asan/unit/backend/jail/"
    cat > "$tree/settings" << END
PATTERN='$PATTERN' TEST_SLOW=$SLOW TEST_JOBS=$CORES
END
    mke2fs -q -t ext4 -O ^has_journal -d "$tree" "$VM/tree.ext4" 512M > /dev/null 2>&1
    rm -rf "$tree"
}

blank() { # blank NAME SIZE: a disk
    rm -f "$VM/$1"
    truncate -s "$2" "$VM/$1"
}

# Emulated, the machine has a clock of its own: a nanosecond is an instruction. So its tests see a machine that is about
# half as fast as a real one, however long they take outside and whatever else runs there, and what they say of time
# holds.
# One core, because its clock counts for all. Where code lies must not differ by process, or qemu translates it anew
# each time.
ACCEL=(-icount 'shift=0,sleep=on' -accel 'tcg,thread=single,tb-size=1024' -cpu max) CORES=1 SLOW=2 \
    KERNEL='mitigations=off norandmaps nowatchdog'
# A processor that says it can: some machines have /dev/kvm and yet emulate, slower than qemu does.
! { [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo; } || { ACCEL=(-accel kvm -cpu host) CORES=2 SLOW=1 KERNEL=; }
# A second in there is five or more out here: unless a pattern asks for more, what boxes differ in by the kind of
# cgroup.
[ -n "$PATTERN" ] || [ "$SLOW" = 1 ] ||
    PATTERN='@(unit/|hostile/|run/jail/@(exec|file|box_quota|box_hostile|tool_read|tool_bash))'

make_root
make_tree
blank quota.img 6G
blank xfs.img 2G
blank logs.img 256M
blank swap.img 256M
drive() { DISKS+=(-drive "file=$VM/$1,if=virtio,format=raw,cache=unsafe$2"); }
DISKS=()
drive root.ext4 ,snapshot=on
drive tree.ext4 ,snapshot=on
drive quota.img ''
drive xfs.img ''
drive logs.img ''
drive swap.img ''
status=0
timeout --foreground "${VM_SECONDS:-14400}" qemu-system-x86_64 "${ACCEL[@]}" -smp "$CORES" -m "${VM_MEMORY_MB:-3072}" \
    -display none -monitor none -serial "file:$VM/console.log" -serial stdio -nic none -no-reboot \
    -kernel "$VM/vmlinuz" -initrd "$VM/initrd" "${DISKS[@]}" \
    -append "console=ttyS0 root=/dev/vda rw init=/sbin/init-cubby cgroup_no_v1=all panic=-1 quiet $KERNEL" \
    < /dev/null | stdbuf -oL tr -d '\r' | tee "$VM/output.log" || status=$?
rm -rf "$VM/logs"
mkdir "$VM/logs"
tar -xf "$VM/logs.img" -C "$VM/logs" 2> /dev/null || true
[ -n "${KEEP-}" ] || rm -f "$VM"/{quota,xfs,logs,swap}.img
last=$(tail -1 "$VM/output.log")
if ! [[ $last =~ ^[0-9]+\ passed,\ [0-9]+\ failed ]]; then
    echo "the machine ended before its tests did (status $status); the end of its console:"
    tail -20 "$VM/console.log"
    echo '0 passed, 1 failed, 0 skipped'
    exit 1
fi
[[ $last = *' 0 failed'* ]]
