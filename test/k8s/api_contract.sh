# The API server of the tests does what real ones do: test/k8s/contract passes on both.
# waits
OUT=$(ETCD=http://127.0.0.1:$ORDER_PORT KCM=1 NODE=1 RESTARTED=1 CA=$CLUSTER/ca.crt CERT=$CLUSTER/admin.crt \
    KEY=$CLUSTER/admin.key test/k8s/contract "https://127.0.0.1:$API_PORT" 2>&1)
while IFS= read -r line; do fail "${line#NOT AS EXPECTED: }"; done < <(grep '^NOT AS EXPECTED' <<< "$OUT")
is 'every check of the contract' "$(tail -1 <<< "$OUT")" '83 passed, 0 failed'
