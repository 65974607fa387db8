# Workers that are pods of the chart's StatefulSet: they join by their pods' tokens, what happens to a pod is what its
# boxes say, and the head adds and takes away workers.
chart_install --set "workers.server=\"unix:$SOCKET\"" --set workers.boxes=4 --set workers.memoryMiB=2048 \
    --set 'workers.resources={"limits":{"memory":"512Mi"}}' --set workers.graceSeconds=5
head_config 'k8s_workers: cubby-worker' 'k8s_spare_boxes: 2' 'k8s_max: 2' 'k8s_shrink_s: 1'
start_or_end "$HEAD_PROGRAM"
W=cubby-worker-0

# ---- joining ----

eventually 30 worker_online $W || diag "$(tail -3 "$WORK/daemon.log" "$CLUSTER"/pods/*/worker.log)"
ok "a pod joins by its own token, under its pod's name" worker_online $W
api POST /v1/boxes '{"thread":"a"}'
is 'a box in it' "$STATUS $(j .machine)" "201 $W"
box_use "$(j .id)"
api POST "$B/exec" '{"command":"echo mine > keep; cat keep"}'
is 'and a command' "$(j .stdout)" mine
order log > /dev/null
api POST /v1/boxes '{"thread":"b"}'
SECOND=$(j .id)
api POST "/v1/boxes/$SECOND/exec" '{"command":"true"}'
api DELETE "/v1/boxes/$SECOND"
WRITES=$(order log | jq '[.[] | select(test("^(POST|PUT|PATCH|DELETE)"))] | length')
is 'a box writes nothing to the API server' "$WRITES" 0

# ---- who may not ----

token_of() { # token_of ACCOUNT POD AUDIENCE: TOKEN
    local uid
    uid=$(pod_uid "$2")
    kube POST "/api/v1/namespaces/$NS/serviceaccounts/$1/token" "{\"spec\":{\"audiences\":[\"$3\"],
        \"boundObjectRef\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"name\":\"$2\",\"uid\":\"$uid\"}}}"
    TOKEN=$(kj .status.token)
}
refused() { # refused NAME SENTENCE
    OUT=$(timeout 20 "$CUBBY" join --worker --server "unix:$SOCKET" --state "$WORK/refused" --token "$TOKEN" 2>&1)
    like "$1" "${OUT%%usage:*}" "$2"
}
token_of cubby-worker $W other
refused 'a token for another audience' "audience 'cubby'"
token_of cubby-head $W cubby
refused 'of another service account' 'not a service account of workers'
TOKEN=${TOKEN%?}x
refused 'a forged one' 'does not know this token'
kube POST "/api/v1/namespaces/$NS/pods" '{"metadata":{"name":"stranger",
    "labels":{"app.kubernetes.io/component":"worker"}},"spec":{"serviceAccountName":"cubby-worker",
    "containers":[{"name":"c","image":"local/x","command":["sleep","99"]}]}}'
token_of cubby-worker stranger cubby
refused 'a pod without our label' 'not a worker of this server'
kube DELETE "/api/v1/namespaces/$NS/pods/stranger" '{"gracePeriodSeconds":0}'
refused 'a pod that is gone' 'its pod is gone'
kube POST "/api/v1/namespaces/$NS/serviceaccounts/cubby-worker/token" '{"spec":{"audiences":["cubby"]}}'
TOKEN=$(kj .status.token)
refused 'a token that is not bound to a pod' 'not bound to a pod'

# ---- the API server is away ----

kill -KILL "$API_PID"
wait "$API_PID" 2> /dev/null
api POST /v1/boxes '{"thread":"c"}'
is 'boxes are made while the API server is down' "$STATUS" 201
api POST "/v1/boxes/$(j .id)/exec" '{"command":"echo on"}'
is 'and work' "$(j .stdout)" on
delete_boxes
