# Engines that are no good: not there, stopped under us with all containers, with a stranger's container under our name,
# without
# room on its disk, and one that lies. Each time a clear error, and nothing half-made.
# engine: own

first=$BOX

# ---- a stranger under our name ----

taken=$(printf 'ann:taken' | sha256sum | cut -c1-16)
stranger=$(engine POST "/containers/create?name=$(container "$taken")" -H 'Content-Type: application/json' \
    -d "{\"Image\":\"$IMAGE_BUSYBOX\",\"Cmd\":[\"sleep\",\"1000\"]}" | jq -r .Id)
before=$(directories)
api POST /v1/boxes '{"backend":"docker","user":"ann","thread":"taken"}'
is_error "a stranger's container has the name" 409 EXISTS "$(container "$taken")"
is 'nothing is made for it' "$(directories)" "$before"
api DELETE "/v1/boxes/$taken"
is 'there is no such box to delete' "$STATUS" 404
is "and the stranger's is as it was" \
    "$(engine GET "/containers/$(container "$taken")/json" | jq -r '[.Id,.State.Status]|@csv')" \
    "\"$stranger\",\"created\""
engine DELETE "/containers/$stranger" > /dev/null
api POST /v1/boxes '{"backend":"docker","user":"ann","thread":"taken"}'
is 'when that is gone the box can be had' "$STATUS" 201
# and the other way: somebody removes ours
box_use "$taken"
run 'echo kept > f'
engine DELETE "/containers/$(container "$taken")?force=1" > /dev/null
told() { run true && [ "$STATUS" = 410 ]; }
ok 'a container removed under us is noticed' eventually 10 told
like 'and told as what it is' "$(j .error.message)" 'removed|killed|ended|gone'
api POST /v1/boxes '{"backend":"docker","user":"ann","thread":"taken"}'
run 'cat f'
is 'its user and thread have it again, with the files of its workspace' "$STATUS $OUT" '200 kept'
api DELETE "$B"

# ---- stopped under us, and all containers with it ----

box_new '"user":"ann","thread":"t"'
threaded=$BOX
run 'echo kept > f; echo layer > /home/agent/f'
kill -TERM "$(cat "$ENGINE_DIR/pid")"
eventually 30 test ! -e "$ENGINE_DIR/pid"
run true
is_error 'boxes ended with the engine, and say so' 410 GONE 'ended|killed|stopped|hung up'
api POST /v1/boxes '{"backend":"docker","user":"ann","thread":"t"}'
like 'without an engine it cannot be started: said, and where it was looked for' \
    "$STATUS $(j .error.code) $(j .error.message)" "^503 BUSY .*$ENGINE_SOCKET"
api GET /v1/boxes
is 'boxes are known all the same' "$STATUS $(j '.boxes|length')" '200 2'
api POST /v1/boxes '{"backend":"docker"}'
is_error 'nor a new one' 503 BUSY "$ENGINE_SOCKET"
is 'nothing is made for it' "$(directories | wc -w)" 2
api DELETE "/v1/boxes/$first"
like 'a box can be deleted, or it is told that it cannot now' "$STATUS" '^(204|503)$'
engine_launch "$ENGINE_DIR" || fail 'the engine comes again' "$ENGINE_WHY"
again() { api POST /v1/boxes '{"backend":"docker","user":"ann","thread":"t"}' && [ "$STATUS" = 200 ]; }
ok 'with the engine it is started again' eventually 20 again
box_use "$threaded"
run 'cat f /home/agent/f'
is 'with the files of its workspace and of its layer' "$STATUS $OUT" $'200 kept\nlayer'
api DELETE "/v1/boxes/$first"
gone() { ! containers | grep -q "$first"; }
ok 'what was deleted while the engine was away goes' eventually 20 gone
api DELETE "$B"

# ---- no room ----

small_engine() {
    truncate -s 160M "$WORK/disk"
    mkdir "$WORK/small"
    mke2fs -q -F -t ext4 -m 0 "$WORK/disk" && mount -o loop "$WORK/disk" "$WORK/small"
}
if small_engine; then
    big=$ENGINE_DIR
    engine_launch "$WORK/small/e" || fail 'an engine on a small disk' "$ENGINE_WHY"
    ENGINE_OWN="$ENGINE_OWN" image_busybox
    DOCKER_HOST=unix://$ENGINE_SOCKET second_start "$CONFIG" "$PROGRAM"
    box_new "\"template\":\"$IMAGE_BUSYBOX\",\"user\":\"ann\",\"thread\":\"full\""
    is 'a box on a small disk' "$STATUS" 201
    full=$BOX
    run 'dd if=/dev/zero of=/root/fill bs=1M count=300'
    like 'its own layer can fill it' "$ERR$OUT" 'No space left'
    head -c 10000000 /dev/zero > "$WORK/small/rest" 2> /dev/null
    cat /dev/zero > "$WORK/small/rest2" 2> /dev/null
    before=$(ls -A "$STATE/boxes")
    api POST /v1/boxes "{\"backend\":\"docker\",\"template\":\"$IMAGE_BUSYBOX\"}"
    like 'then no box can be made, and it is said why' "$STATUS $(j .error.message)" \
        '^(507|50[0-9]|429|413) .*[Nn]o (space|room)'
    is 'nothing of it is left' "$(ls -A "$STATE/boxes") $(engine GET '/containers/json?all=1' | jq length)" "$before 1"
    box_use "$full"
    for what in export snapshots; do
        api POST "$B/$what" '{}'
        like "$what: no room is told" "$STATUS $(j .error.message)" '^(507|50[0-9]|429|413) .*[Nn]o space'
    done
    swept() { [ -z "$(ls -A "$STATE/layers")" ] && [ "$(engine GET '/images/json?all=1' | jq length)" = 1 ]; }
    eventually 10 swept && pass 'and leaves neither an image nor a layer' ||
        fail 'and leaves neither an image nor a layer' "$(ls "$STATE/layers") $(engine GET '/images/json?all=1')"
    run 'rm /root/fill; echo fine'
    is 'a box that runs goes on' "$OUT" fine
    rm -f "$WORK/small/rest" "$WORK/small/rest2"
    box_new "\"template\":\"$IMAGE_BUSYBOX\""
    is 'with room there are boxes again' "$STATUS" 201
    delete_boxes
    second_end
    engine_end "$WORK/small/e"
    umount "$WORK/small"
    ENGINE_DIR=$big ENGINE_SOCKET=$big/sock
    rm -f "$WORK/disk"
else skip 'an engine on a small disk' 'no loop devices here'; fi

# ---- one that lies ----

cat > "$WORK/liar.py" << 'END'
# Answers as an engine would, but for the lie that PATH.lie names.
import http.server, json, os, socketserver, sys
path, home = sys.argv[1:]
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *args): pass
    def say(self, status, body, kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status); self.send_header("Api-Version", "1.41"); self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data))); self.end_headers(); self.wfile.write(data)
    def handle_any(self):
        lie = open(path + ".lie").read().strip()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        where = self.path.split("?")[0]
        where = "/" + where.split("/", 2)[2] if where.startswith("/v1.") else where
        open(path + ".log", "a").write("%s %s\n" % (self.command, self.path))
        if lie == "garbage": self.wfile.write(b"\0\1\2 not http at all\r\n" * 100); self.close_connection = True; return
        if lie == "endless head":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            try:
                while True: self.wfile.write(b"X-More: " + b"y" * 1000 + b"\r\n")
            except OSError: self.close_connection = True; return
        if lie == "endless body" and "/json" in where:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            try:
                while True: self.wfile.write(b"10000\r\n" + b"[" * 0x10000 + b"\r\n")
            except OSError: self.close_connection = True; return
        if lie == "half" and "/containers/create" in where:
            self.wfile.write(b"HTTP/1.1 201 Created\r\nContent-Length: 500\r\n\r\n{\"Id\":\"a")
            self.close_connection = True; return
        if where == "/_ping": return self.say(200, b"OK", "text/plain")
        if where == "/version": return self.say(200,
              {"ApiVersion": "1.41", "MinAPIVersion": "1.12", "Version": "20.10", "Os": "linux", "Arch": "amd64"})
        if where == "/info": return self.say(200,
              {"OSType": "linux", "Architecture": "x86_64", "Driver": "overlay2", "CgroupVersion": "1",
                    "MemoryLimit": True, "SwapLimit": True, "PidsLimit": True, "CpuCfsQuota": True, "NCPU": 2,
                          "Runtimes": {"runc": {}}, "DefaultRuntime": "runc",
                                "SecurityOptions": ["name=seccomp,profile=default"], "ServerVersion": "20.10"})
        if where.startswith("/images/") and where.endswith("/json"): return self.say(200,
              {"Id": "sha256:" + "a" * 64, "Os": "linux", "Architecture": "amd64",
                    "Config": {"Env": ["PATH=/bin"] if lie != "types" else {"a": 1},
                          "User": "" if lie != "types" else 7}})
        if where == "/containers/json": return self.say(200, [] if lie != "types" else {"Id": [1]})
        if where == "/containers/create": return self.say(201,
              {"Id": ("b" * 64) if lie != "id" else "../../../etc", "Warnings": 5})
        if where.startswith("/containers/") and where.endswith("/json"):
            name = where.split("/")[2]
            if not os.path.exists(path + ".made"): open(path + ".made", "w"); return self.say(404, {"message": "none"})
            box = name[15:] if name.startswith("cubby-") else "0" * 16
            return self.say(200,
                  {"Id": "b" * 64, "Name": "/" + name, "Image": "sha256:" + "a" * 64,
                        "Config": {"Labels": {"cubby.home": open(home).read().strip(), "cubby.box": box}},
                              "State": {"Status": "running", "Running": True, "Pid": 1}})
        if where.endswith("/attach"): # which says something, and no runner
            self.wfile.write(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n" +
                             b"\2\0\0\0\0\0\0\5liar\n")
            self.close_connection = True; return
        if where.endswith("/start"): return self.say(204, b"")
        if where == "/events": return self.say(200, b'{"Type":"container"' * 100)
        if self.command == "DELETE": return self.say(204, b"")
        self.say(500, b"<html>what?</html>", "text/html")
    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_any
    def address_string(self): return "x"
class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    def get_request(self): request, _ = super().get_request(); return request, ("x", 0)
Server(path, Handler).serve_forever()
END
echo garbage > "$WORK/liar.lie"
python3 "$WORK/liar.py" "$WORK/liar" "$WORK/state-second/docker-home" > "$WORK/liar.out" 2>&1 & liar=$!
eventually 10 test -S "$WORK/liar"
DOCKER_HOST=unix://$WORK/liar second_start "$CONFIG" "$PROGRAM" ||
    fail 'a daemon serves, whatever the engine is' "$(tail -3 "$WORK/daemon.log")"
for lie in garbage 'endless head' 'endless body' half types id pid; do
    rm -f "$WORK/liar.made"
    echo "$lie" > "$WORK/liar.lie"
    before=$(daemon_memory_kb VmHWM)
    now_ms
    start=$NOW
    API_SECONDS=90 api POST /v1/boxes '{"backend":"docker","template":"x"}'
    now_ms
    like "$lie: an error that says what came" "$STATUS $(j .error.code)" '^(4[0-9][0-9]|50[0-9]) [A-Z_]+$'
    diag "$(j .error.message)"
    between "$lie: in time" $((NOW - start)) 0 45000
    between "$lie: with little memory" $(($(daemon_memory_kb VmHWM) - before)) 0 120000
    is "$lie: nothing is left" "$(ls -A "$STATE/boxes" 2> /dev/null | grep -E '^[0-9a-f]{16}$')" ''
    api GET /v1/boxes
    is "$lie: the daemon answers" "$STATUS $(j '.boxes|length')" '200 0'
done
second_end || fail 'it ends in order' "$(tail -3 "$WORK/daemon.log")"
kill "$liar"
wait "$liar" 2> /dev/null
