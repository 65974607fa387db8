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
cluster_kill() { # makes no check: it also runs after the plan was printed
    local pid
    for pid in $KUBELET_PID $API_PID; do
        kill "$pid" 2> /dev/null
        wait "$pid" 2> /dev/null
    done
    KUBELET_PID='' API_PID=''
}
cluster_end() {
    cluster_kill
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

# The chart, as far as the API server of the tests knows its kinds, with these values.
chart_objects() { # chart_objects [--set KEY=JSON]...: a line of JSON for each object
    python3 test/k8s/render.py packaging/k8s/chart --namespace "$NS" "$@" |
        python3 -c 'import json, sys, yaml; [print(json.dumps(o)) for o in yaml.safe_load_all(sys.stdin)]'
}
object_path() { # object_path OBJECT: where its kind is made
    jq -r --arg ns "$NS" '{Namespace: "namespaces", ServiceAccount: "serviceaccounts", ConfigMap: "configmaps",
        ClusterRole: "clusterroles", ClusterRoleBinding: "clusterrolebindings", Role: "roles",
        RoleBinding: "rolebindings", Service: "services", StatefulSet: "statefulsets",
        PodDisruptionBudget: "poddisruptionbudgets"}[.kind] as $plural | select($plural) |
        (if .apiVersion == "v1" then "/api/v1" else "/apis/\(.apiVersion)" end) +
        (if .kind | startswith("ClusterRole") then "" else "/namespaces/\($ns)" end) + "/\($plural)"' <<< "$1"
}
chart_install() { # chart_install [--set KEY=JSON]...: all but the head, which the test starts itself
    local object path
    kube POST /api/v1/namespaces "{\"metadata\":{\"name\":\"$NS\"}}"
    while IFS= read -r object; do
        path=$(object_path "$object")
        [ -n "$path" ] && [ "$(jq -r '.kind + .metadata.name' <<< "$object")" != StatefulSetcubby-head ] || continue
        kube POST "$path" "$object"
        [ "$KSTATUS" = 201 ] || fail "the chart's $(jq -r '.kind + " " + .metadata.name' <<< "$object")" "$KBODY"
    done < <(chart_objects "$@")
    head_token
}
head_token() { # renews it
    kube POST "/api/v1/namespaces/$NS/serviceaccounts/cubby-head/token" '{"spec":{"expirationSeconds":3600}}'
    kj .status.token > "$WORK/head-token.new" && mv "$WORK/head-token.new" "$WORK/head-token"
}
head_config() { # head_config [LINE]...: configuration of a head outside of the cluster, with the rights of one inside
    write_config
    printf '%s\n' 'k8s: true' "k8s_api: https://127.0.0.1:$API_PORT" "k8s_ca: $CLUSTER/ca.crt" "k8s_namespace: $NS" \
        "k8s_token_file: $WORK/head-token" "$@" >> "$CONFIG"
}
replicas() { # replicas N: whether the StatefulSet has so many
    kube GET "/apis/apps/v1/namespaces/$NS/statefulsets/cubby-worker/scale"
    [ "$(kj .spec.replicas)" = "$1" ]
}
pod_uid() { # pod_uid NAME
    kube GET "/api/v1/namespaces/$NS/pods/$1"
    kj .metadata.uid
}
