# A cluster for tests: test/k8s/apiserver.py and test/k8s/kubelet.py. Sourced after lib.sh and daemon.sh.
CLUSTER=$WORK/cluster API_PID='' KUBELET_PID='' NS=cubby

api_there() { [ -s "$CLUSTER/port" ]; }
api_start() { # api_start [PORT]
    rm -f "$CLUSTER/port"
    python3 test/k8s/apiserver.py "$CLUSTER" --port "${1:-0}" < /dev/null >> "$CLUSTER/api.log" 2>&1 &
    API_PID=$!
    eventually 20 api_there && read -r API_PORT ORDER_PORT < "$CLUSTER/port"
}
kubelet_start() {
    python3 test/k8s/kubelet.py "$CLUSTER" "$BUILD" < /dev/null >> "$CLUSTER/kubelet.log" 2>&1 &
    KUBELET_PID=$!
}
cluster_start() {
    mkdir -p "$CLUSTER"
    api_start && kubelet_start
}
cluster_end() {
    local pid
    for pid in $KUBELET_PID $API_PID; do
        kill "$pid" 2> /dev/null
        wait "$pid" 2> /dev/null
    done
    KUBELET_PID='' API_PID=''
    unlike 'the API server of the tests has no defect' "$(cat "$CLUSTER/api.log" "$CLUSTER/kubelet.log" 2> /dev/null)" \
        'Traceback'
    rm -rf "$CLUSTER"
}

# A request as the cluster's administrator. KSTATUS, KBODY.
kube() { # kube METHOD PATH [BODY [TYPE]]
    KSTATUS=$(curl -s --cacert "$CLUSTER/ca.crt" --cert "$CLUSTER/admin.crt" --key "$CLUSTER/admin.key" -X "$1" \
        -H "Content-Type: ${4:-application/json}" ${3:+-d "$3"} -o "$WORK/kube" -w '%{http_code}' --max-time 20 \
        "https://127.0.0.1:$API_PORT$2")
    KBODY=$(< "$WORK/kube")
}
kj() { jq -r "$1" <<< "$KBODY"; }
order() { # order WHAT JSON: of the API server
    curl -s --max-time 10 "http://127.0.0.1:$ORDER_PORT/$1" -d "${2-}"
}
order_pod() { : > "$CLUSTER/order.$1.$2"; } # order_pod oom|evict|node-lost|crash POD
