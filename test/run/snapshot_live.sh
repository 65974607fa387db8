# A snapshot or a fork of a box in which programs write: it shows one moment, the programs and other calls continue,
# and a daemon that is killed in the middle leaves nothing of it.
# daemon: plain
# files: on disk
# by default: jail

if [ "$BACKEND" != jail ]; then
    skip 'live snapshots' "$BACKEND: only jails have layers on this machine"
    return
fi
box_new ''
old=$BOX
run 'for ((d = 0; d < 20; d++)); do mkdir d$d; for ((f = 0; f < 100; f++)); do echo $f > d$d/$f; done; done; ls | wc -l'
is 'a box with files' "$OUT" 20
# first is written before second; a name is old or new; a moved directory is in one place.
api POST "$B/processes" "{\"command\":\"$(tr '\n' ' ' << 'EOF'
mkdir here; echo kept > here/file; : > old;
for ((i = 1; ; i++)); do
  echo $i >> first; echo $i >> second;
  mv old new; mv new old;
  mv here there; mv there here;
  echo $i > d3/$((i % 100)); ln -f d3/1 link; chmod $((i % 2 ? 600 : 644)) d4/1;
done
EOF
)\"}"
writer=$(j .pid)
moves() { run 'wc -l < second' && [ "$OUT" -gt "$1" ]; }
ok 'a program writes' eventually 20 moves 10
snapshot() { api POST "$B/snapshots" "{\"name\":\"$1\"}"; }
consistent() { # in the box that is used now
    run 'a=$(wc -l < first) b=$(wc -l < second); [ $((a - b)) -ge 0 -a $((a - b)) -le 1 ] && echo ordered
        ls -d old new 2> /dev/null | wc -l; cat here/file there/file 2> /dev/null; ls d0 | wc -l; cat d19/99'
    xargs <<< "$OUT"
}
for turn in 1 2 3; do
    snapshot "s$turn"
    is "it is kept while it runs ($turn)" "$STATUS $(j '[.method,.stopped]|tostring')" '201 ["copy",false]'
    api POST "$B/fork" "{\"snapshot\":\"s$turn\"}"
    is 'and a box is made of it' "$STATUS" 201
    box_use "$(j .id)"
    is 'which is of one moment' "$(consistent)" 'ordered 1 kept 100 99'
    api DELETE "$B"
    box_use "$old"
done
api POST "$B/fork" '{}'
fork=$(j .id)
box_use "$fork"
is 'a fork without a snapshot is of one moment as well' "$(consistent)" 'ordered 1 kept 100 99'
api DELETE "$B"
box_use "$old"
run "kill -0 $writer && wc -l < second"
lines=$OUT
ok 'the program goes on' eventually 20 moves "$lines"
is 'nothing of a copy is left beside the box' "$(ls "$STATE/boxes/$old" | grep -c ahead)" 0
# Killed in the middle: the copy of many files takes long enough to be seen.
run 'for ((d = 0; d < 60; d++)); do mkdir m$d; for ((f = 0; f < 200; f++)); do : > m$d/$f; done; done'
curl -s -o /dev/null --max-time 60 --unix-socket "$SOCKET" -d '{"name":"half"}' "http://localhost$B/"\
"snapshots" & client=$!
begun() { compgen -G "$STATE/boxes/$old/ahead/upper/workspace/m*" > /dev/null; }
if eventually 20 begun; then
    run 'echo answered'
    is 'other calls are answered meanwhile' "$OUT" answered
    kill -KILL "$DAEMON_PID"
    wait "$client" "$DAEMON_PID" 2> /dev/null
    start_daemon "$program"
    box_use "$old"
    run "kill -0 $writer && echo there"
    is 'the program outlives a daemon that is killed in the middle' "$OUT" there
    api GET "$B/snapshots"
    is 'which has made no snapshot' "$(j '[.snapshots[].name]|index("half")')" null
    swept() { [ ! -e "$STATE/boxes/$old/ahead" ]; }
    ok 'and of which nothing is left' eventually 10 swept
    snapshot again
    is 'the next one is made' "$STATUS $(j .method)" '201 copy'
else
    fail 'a copy is begun beside the box' "$(ls "$STATE/boxes/$old")"
fi
api DELETE "$B"
