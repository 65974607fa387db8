#!/bin/bash
# Kubernetes: each file has a cluster of its own, the API server and the kubelet of this directory, and a daemon that it
# starts itself. usage: test/k8s/run.sh FILE...
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
BACKEND=fleet
. test/lib/daemon.sh
. test/lib/fleet.sh
. test/lib/k8s.sh
trap 'cluster_kill; for pid in "${WORKER_PID[@]}"; do kill "$pid"; done 2> /dev/null; clean_up' EXIT
use_cubby
HEAD_PROGRAM=$BUILD/asan/cubbyd
[ -x "$HEAD_PROGRAM" ] || HEAD_PROGRAM=$BUILD/cubbyd
for file in "$@"; do
    if cluster_start; then . "$file"; else fail "a cluster for $file" "$(cat "$CLUSTER/api.log")"; fi
    cluster_end
done
finish
