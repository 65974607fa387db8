# What happens to a worker's pod is what its boxes say; workers are added and taken away.
chart_install --set "workers.server=\"unix:$SOCKET\"" --set workers.boxes=4 --set workers.memoryMiB=2048 \
    --set 'workers.resources={"limits":{"memory":"512Mi"}}' --set workers.graceSeconds=5
head_config 'k8s_workers: cubby-worker' 'k8s_spare_boxes: 1' 'k8s_max: 2' 'k8s_shrink_s: 0'
start_or_end "$HEAD_PROGRAM"
W=cubby-worker-0
eventually 30 worker_online $W || diag "$(tail -3 "$WORK/daemon.log" "$CLUSTER"/pods/*/worker.log)"
api POST /v1/boxes '{"thread":"a"}'
box_use "$(j .id)"
api POST "$B/exec" '{"command":"echo mine > keep; cat keep"}'
is 'a box in a pod' "$(j .stdout)" mine

says() { # says SENTENCE: what an exec in the box answers, or what the box says of its end
    api POST "$B/exec" '{"command":"true"}'
    ANSWER=$(j .error.message)
    api GET "$B"
    ANSWER+=" $BODY"
    [[ $ANSWER =~ $1 ]]
}
again() { # the box is started again, in the pod that replaces its worker: OUT
    answers_again() { # the link of the pod that dies may last a moment longer
        api POST "$B/start"
        api POST "$B/exec" '{"command":"cat keep"}'
        OUT=$(j .stdout)
        [ "$STATUS" = 200 ]
    }
    eventually 30 worker_online $W
    eventually 30 answers_again
}
order_pod evict $W
ok 'a box of an evicted worker says so' eventually 20 says 'evicted: The node was low on resource: memory'
again
is 'the pod that replaces it has the files' "$OUT" mine
order_pod oom $W
ok 'killed for memory' eventually 20 says 'killed for memory \(limit 512Mi\)'
again
is 'and comes back with its files' "$OUT" mine
order_pod node-lost $W
ok 'its node is lost' eventually 20 says 'its node is lost or tainted'
again
kube DELETE "/api/v1/namespaces/$NS/pods/$W"
ok 'its pod is deleted' eventually 20 says 'its pod (was|is being) deleted'
again
is 'its files are there after all of that' "$OUT" mine

# ---- how many workers ----

for thread in b c d; do api POST /v1/boxes "{\"thread\":\"$thread\"}"; done
ok 'a worker is added when fewer are spare than wanted' eventually 20 replicas 2
ok 'and joins' eventually 30 worker_online cubby-worker-1
api POST /v1/boxes '{"thread":"e"}'
is 'it gets boxes' "$STATUS $(j .machine)" '201 cubby-worker-1'
LAST=$(j .id)
api POST "/v1/boxes/$LAST/processes" '{"command":"exec sleep 300"}' # an idle box would move
for id in $(api GET /v1/boxes; j '.boxes[].id'); do
    [ "$id" = "$LAST" ] || [ "/v1/boxes/$id" = "$B" ] || api DELETE "/v1/boxes/$id"
done
ok 'the last worker is drained when more are spare' eventually 20 worker_online cubby-worker-1 draining
ok 'and not taken away while it has a box' replicas 2
api POST "/v1/boxes/$LAST/exec" '{"command":"echo here"}'
is 'which works' "$(j .stdout)" here
api DELETE "/v1/boxes/$LAST"
ok 'but when it is empty' eventually 20 replicas 1

delete_boxes
