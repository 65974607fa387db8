#!/bin/bash
# PID 1 of the test machine (test/vm/run.sh): mounts what a machine has, runs the suites, hands the logs out, powers
# off.
# The layout is systemd's: every process in a service's group below a slice, none in the root of cgroup v2.
exec > /dev/ttyS1 2>&1 < /dev/null
set -u
PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
export PATH HOME LANG
cd /
. /cubby/settings

mount -t proc proc /proc
mountpoint -q /sys || mount -t sysfs sys /sys
mountpoint -q /dev || mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=0755 run /run
mount -t cgroup2 cgroup /sys/fs/cgroup
for module in overlay loop veth btrfs xfs quota_v2 nf_tables nft_masq nft_ct nft_nat; do modprobe -q "$module"; done
ip link set lo up
sysctl -q -w kernel.pid_max=4194304 net.ipv4.ip_forward=1
hostname vm
ulimit -Hn 65536

# ext4 with project quotas holds everything the tests make, their state directories above all
mke2fs -q -t ext4 -O project,quota -E quotatype=prjquota /dev/vdc && mount -o prjquota /dev/vdc /tmp && chmod 1777 /tmp
mkswap -q /dev/vdf && swapon /dev/vdf
mkfs.xfs -q /dev/vdd && mount -o prjquota /dev/vdd /xfs && chmod 1777 /xfs

cd /sys/fs/cgroup
for controller in cpu memory pids io; do echo "+$controller" > cgroup.subtree_control; done
mkdir -p system.slice/test.service
for controller in cpu memory pids io; do echo "+$controller" > system.slice/cgroup.subtree_control; done
for pid in $(cat cgroup.procs); do echo "$pid" > system.slice/test.service/cgroup.procs; done 2> /dev/null

cd /cubby
export CUBBYD=/cubby/build/cubbyd BACKENDS=jail TEST_JOBS TEST_SLOW
echo "$(uname -sr), cgroup v2 with $(cat /sys/fs/cgroup/cgroup.controllers)"
build/cubby doctor

suite() { # suite NAME PATTERN: its counts are in /tmp/NAME
    echo "on $1:"
    bash test/lib/driver.sh build "$2" 2>&1 | tee "/tmp/$1" > /dev/ttyS1
    mv build/test-logs "build/logs/$1"
}
mkdir -p build/logs
suite ext4 "$PATTERN"
# quotas on the other file system that has them
[ -n "$PATTERN" ] && [[ run/jail/box_quota != *$PATTERN* ]] ||
    TMPDIR=/xfs suite xfs '@(run/jail/box_quota|hostile/disk_)'
tar -c -C build/logs . > /dev/vde
cat /tmp/ext4 /tmp/xfs 2> /dev/null | awk \
    '/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { p += $1; f += $3; s += $5 }
    END { printf "%d passed, %d failed, %d skipped\n", p, f, s }'
sync
echo o > /proc/sysrq-trigger
read -r _ < <(sleep 60)
