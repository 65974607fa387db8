#!/bin/bash
# Files of an E2B sandbox with npm's e2b (test/clients), and what only raw requests can ask for.
# waits
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
. test/lib/e2b.sh
e2b_clients_or_skip
e2b_start 'max_upload_bytes: 50000000' 'e2b_domain: sbx.localhost'
export TEST_DOMAIN=sbx.localhost
program "npm's e2b" env UPLOAD_LIMIT=50000000 "$NODE" test/clients/e2b_files.mjs
program "an older one" env UPLOAD_LIMIT=50000000 E2B_PACKAGE=e2b-2.45 "$NODE" test/clients/e2b_files.mjs

# A path of the inside is not one that a client can name.
is 'the inside has no path of its own' "$(curl -s -o /dev/null -w '%{http_code}' "$URL/_e2b/x/49983/files?path=x")" 404
stop_daemon
finish
