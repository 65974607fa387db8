# What the daemon itself holds for everybody, taken by one user with many boxes: watchers, spooled uploads, the editor's
# undo history, and processor time for patterns. Another user still gets some of each.
# wall: counted by user, in one table; a user never holds more than is left for others
# config: max_upload_bytes: 4000000
# config: skill_unpacked_bytes: 4000000
# config: max_boxes_per_user: 0

victim=$NEIGHBOUR
boxes=("$ATTACKED")
for i in 2 3 4 5 6 7 8; do
    box_new '"thread":"'"$i"'"' && boxes+=("$BOX")
done
cat > "$WORK/shares.py" << 'END2'
import stat, sys
from aio import *

sock, daemon, victim, *boxes = sys.argv[1:]
others = [Aio('http://localhost/aio/' + box, socket_path=sock) for box in boxes]
mine = Aio('http://localhost/aio/' + victim, socket_path=sock)


def tries(call):
    try:
        call()
        return 'taken'
    except Failure as failure:
        return f'{failure.status} {failure}'


# ---- watchers ----
for aio in others:
    aio.post('shell/exec', command='mkdir -p ' + ' '.join(f'w{i}' for i in range(32)))
told = [tries(lambda: aio.post('file/watch', path=f'/workspace/w{i}')) for aio in others for i in range(32)]
check('one user has 128 watchers, in whatever boxes', told.count('taken'), 128)
matches('and is told whose limit it is', told[-1], "user '.*' has 128 watchers")
check('another user still gets one', tries(lambda: mine.post('file/watch', path='/workspace')), 'taken')


# ---- undo ----
def editor(aio, path, **more):
    return aio.post('file/str_replace_editor', path=path, **more)


editor(mine, '/workspace/u', command='create', file_text='first')
editor(mine, '/workspace/u', command='str_replace', old_str='first', new_str='second')
others[0].post('shell/exec', command="head -c 3500000 /dev/zero | tr '\\0' a > /workspace/big")
for i in range(40):
    editor(others[0], '/workspace/big', command='insert', insert_line=0, new_str='x')
editor(mine, '/workspace/u', command='undo_edit')
check("140 MB of another user's edits push out nobody's history", mine.post('file/read', file='/workspace/u').content,
      'first')
editor(others[0], '/workspace/big', command='undo_edit')
check('and that user still has some', True)


# ---- uploads ----
def upload_open(box, sent, declared=3900000):
    """A form whose file stops before its end."""
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(20)
    link.connect(sock)
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    link.sendall(b'POST /aio/%s/v1/file/upload HTTP/1.1\r\nHost: localhost\r\n'
                 b'Content-Type: multipart/form-data; boundary=b\r\n'
                 b'Content-Length: %d\r\n\r\n' % (box.encode(), declared) + head)
    try:
        link.sendall(bytes(sent))
    except OSError:
        pass # refused before its end
    return link


def spooled():
    total = 0
    for fd in os.listdir(f'/proc/{daemon}/fd'):
        try:
            file = os.stat(f'/proc/{daemon}/fd/{fd}')
            name = os.readlink(f'/proc/{daemon}/fd/{fd}')
            if stat.S_ISREG(file.st_mode) and file.st_nlink == 0 and 'skills/staging' in name:
                total += file.st_size
        except OSError:
            pass
    return total


links = [upload_open(box, 3500000) for box in boxes for i in range(3)]
check('uploads that stop before their end are spooled', bool(eventually(lambda: spooled() >= 6900000)))
refused = 0
for link in links:
    link.settimeout(0.5)
    try:
        refused += link.recv(4096).startswith(b'HTTP/1.1 429 ')
    except OSError:
        pass # one that is held
check('24 of them do not hold more than the 8 MB of a user', spooled() <= 8000000)
check('the others are refused', refused, 22)
check('another user uploads meanwhile', tries(lambda: mine.upload(bytes(3500000), path='/workspace/up')), 'taken')
for link in links:
    link.close()
check('and nothing stays', bool(eventually(lambda: spooled() == 0)))
check('then the user can upload again', tries(lambda: others[0].upload(bytes(3500000), path='/workspace/up')), 'taken')
finish()
END2
program 'shares' env PYTHONPATH=test/lib python3 "$WORK/shares.py" "$SOCKET" "$DAEMON_PID" "$victim" "${boxes[@]}"

# ---- what can never fit the box's disk is refused before it is sent ----
if box_new '"thread":"small","limits":{"disk_mb":2}'; then
    head -c 3000000 /dev/zero > "$WORK/3mb"
    STATUS=$(curl -s -o "$WORK/answer" -w '%{http_code}' --unix-socket "$SOCKET" -F "file=@$WORK/3mb" \
        "http://localhost/aio/$BOX/v1/file/upload")
    like 'an upload larger than the disk of its box' "$STATUS $(cat "$WORK/answer")" '^413 .*disk_mb'
    box_use "$ATTACKED"
else
    skip 'an upload larger than the disk of its box' "no disk quota here: $BODY"
fi

# ---- patterns ----
lines='for i in $(seq 200); do head -c 3000 /dev/zero | tr "\\0" a; echo b; done'
box_use "$victim"
tool bash "{\"command\":\"seq 1 9000\"}"
[[ $TEXT =~ \[offload:(ol_[0-9a-f]{16})\] ]] && mine=${BASH_REMATCH[1]}
box_use "$ATTACKED"
json_string "$lines"
tool bash "{\"command\":$JSON_STRING}"
[[ $TEXT =~ \[offload:(ol_[0-9a-f]{16})\] ]] && kept=${BASH_REMATCH[1]}
searches=()
for i in {1..60}; do
    curl -s --max-time 60 --unix-socket "$SOCKET" -H 'Content-Type: application/json' \
        -d "{\"id\":\"$kept\",\"pattern\":\"(a|aa|aaa)+\$\"}" \
        "http://localhost$B/tools/recall" > "$WORK/recall.$i" &
    searches+=($!)
done
searching() { # threads of nice 19
    grep -hE '^[0-9]+ \(.*\) .( [-0-9]+){15} 19 ' /proc/"$DAEMON_PID"/task/*/stat 2> /dev/null | wc -l
}
busy() { [ "$(searching)" -gt 0 ]; }
ok 'sixty searches that would never end' eventually 20 busy
most=0
for i in {1..20}; do
    now=$(searching)
    [ "$now" -le "$most" ] || most=$now
    neighbour_answers
done
between 'are run one by one, behind everything else' "$most" 1 2 # one that has just ended may still be listed
box_use "$victim"
tool recall "{\"id\":\"$mine\",\"pattern\":\"^89.9\$\"}"
like "another user's search does not wait for them" "$IS_ERROR $TEXT" '^false .* matching lines'
neighbour_check 'meanwhile'
wait "${searches[@]}"
is 'all are answered' "$(cat "$WORK"/recall.* | grep -o '"is_error":' | wc -l)" 60
like 'some found no turn in time' "$(cat "$WORK"/recall.*)" "has 1 searches"
box_use "$ATTACKED"
