# The file routes of the AIO dialect with paths that climb, links that lead out, magic links, pipes and devices,
# contents that are
# huge, binary or no base64; addresses with keys that are none; sessions without end.
# wall: the same verbs as of the native door: openat2 below the box's root, regular files only; sizes are bounded before
# anything is read; a key is compared whole, a session counted
# config: deerflow_home: /nonexistent/deer-flow

outside=$WORK/forbidden/dir
mkdir -p "$outside"
echo outside > "$outside/f"
run "mkdir -p d; echo inside > d/f; ln -s $outside out; ln -s $outside/f outf; ln -s ../../../../../../..$outside "\
"rel; ln -s /proc/1/root magic; ln -s loop loop; mkfifo fifo; printf '\\0\\377\\200x' > binary"
cat > "$WORK/aio63.py" << 'END2'
import sys, time
from aio import *

sock, box, outside = sys.argv[1:]
aio = Aio('http://localhost/aio/' + box, socket_path=sock)


def file_calls(path):
    yield 'read', lambda: aio.post('file/read', file=path)
    yield 'read, as root', lambda: aio.post('file/read', file=path, sudo=True)
    yield 'write', lambda: aio.post('file/write', file=path, content='changed')
    yield 'append', lambda: aio.post('file/write', file=path, content='changed', append=True, sudo=True)
    yield 'replace', lambda: aio.post('file/replace', file=path, old_str='outside', new_str='changed')
    yield 'search', lambda: aio.post('file/search', file=path, regex='outside')
    yield 'grep', lambda: aio.post('file/grep', path=path, pattern='outside')
    yield 'upload', lambda: aio.upload(b'changed', path=path)
    yield 'download', lambda: aio.download(path)
    yield 'view', lambda: aio.post('file/str_replace_editor', command='view', path=path)
    yield 'edit', lambda: aio.post('file/str_replace_editor', command='str_replace', path=path, old_str='outside',
          new_str='changed')
    yield 'insert', lambda: aio.post('file/str_replace_editor', command='insert', path=path, insert_line=0,
          new_str='changed')


def tree_calls(path):
    yield 'list', lambda: aio.post('file/list', path=path, recursive=True)
    yield 'find', lambda: aio.post('file/find', path=path, glob='**')
    yield 'glob', lambda: aio.post('file/glob', path=path, pattern='**')
    yield 'grep of a tree', lambda: aio.post('file/grep', path=path, pattern='outside')
    yield 'watch', lambda: aio.post('file/watch', path=path)


leaked, broken, slow = [], [], []


def attack(calls, path):
    for name, call in calls(path):
        begin = time.monotonic()
        try:
            answer = call()
            text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            # the pattern itself and names that were asked for are told back
            seen = b'outside\\n' in text or text == b'outside\n' or b'"line_content": "outside' in text
            if seen or (name in ('list', 'find', 'glob') and b'/f"' in text):
                leaked.append((name, path[:60], text[:200]))
        except Failure as failure:
            if not 400 <= failure.status < 500 or failure.message is None:
                broken.append((name, path[:60], failure.status, str(failure)[:200]))
        except Exception as problem:
            broken.append((name, path[:60], repr(problem)[:200]))
        if time.monotonic() - begin > 20:
            slow.append((name, path))


for path in (f'/workspace/../../../../../../..{outside}', outside, '/workspace/out', '/workspace/rel',
      f'/workspace/magic{outside}', f'/proc/1/root{outside}'):
    attack(tree_calls, path)
for path in (f'/workspace/../../../../../../..{outside}/f', f'{outside}/f', f'/workspace/outf', f'/workspace/out/f',
      '/workspace/rel/f',
             f'/workspace/magic{outside}/f', f'/proc/self/root{outside}/f', f'/proc/1/root{outside}/f',
                   f'/proc/1/cwd/..{outside}/f'):
    attack(file_calls, path)
check('no route answers anything of the outside', leaked, [])
check('each says no, with words', broken, [])
check('and nothing of it was changed', (sorted(os.listdir(outside)), open(outside + '/f').read()), (['f'], 'outside\n'))

broken.clear()
for path in ('/workspace/fifo', '/dev/zero', '/dev/tty', '/proc/kmsg', '/workspace/loop', '/workspace', '', '/',
      'a\0b', '/' + 'x' * 300, '/x' * 5000, '\udc80'.encode('utf-8', 'replace').decode()):
    attack(file_calls, path)
for path in ('/workspace/loop', '', 'a\0b', '/' + 'x' * 300, '/x' * 5000):
    attack(tree_calls, path)
check('pipes, devices, loops, directories and names that cannot be are refused by each', broken, [])
check('at once', slow, [])

# ---- contents ----
big = 'x' * (24 << 20)
status, _ = refusal(aio.post, 'file/write', file='/workspace/big', content=big)
check('a large text is written', (status, len(aio.download('/workspace/big'))), (200, len(big)))
status, message = refusal(aio.post, 'file/read', file='/workspace/big')
check('and read whole, or refused in words', status == 200 or (status in (400, 413) and bool(message)), True)
data = os.urandom(1 << 20)
aio.upload(data, path='/workspace/random')
check('bytes go in and out as they are', aio.download('/workspace/random') == data, True)
status, answer = refusal(aio.post, 'file/read', file='/workspace/binary')
check('what is no text is told as such, or with its bytes replaced',
      status in (400, 415, 422) or '\ufffd' in answer.content, True)
for content in ('!!!!', 'AAA', 'A' * 1001, '=AAA'):
    check(f'no base64: {content[:4]}',
          refusal(aio.post, 'file/write', file='/workspace/none', content=content, encoding='base64')[0] in (400, 422),
                True)
check('no such encoding', refusal(aio.post, 'file/write', file='/workspace/none', content='x', encoding='rot13')[0],
      422)
check('nothing was written then', refusal(aio.download, '/workspace/none')[0], 404)
for body in (b'', b'{', b'[]', b'"x"', b'{"file":"/workspace/none","content":"x"} x',
      b'{"file":"/workspace/none","content":"\xff"}',
             b'{"file":' + b'[' * 5000, b'{"file":"/workspace/none","content":1e999}'):
    status, _, text = aio.http.send('POST', '/v1/file/write', body, {'content-type': 'application/json'})
    check(f'a body that is none: {body[:24]!r}', 400 <= status < 500, True)
check('nothing by those either', refusal(aio.download, '/workspace/none')[0], 404)

# ---- sessions without end, commands that are too long ----
statuses = set(refusal(aio.post, 'shell/sessions/create', id=f's{k}')[0] for k in range(100))
check('so many sessions: room is made, or no is said', statuses <= {200, 400}, True)
stats = aio.get('shell/sessions/stats')
check('never more than there may be', stats.total_sessions <= stats.max_sessions, True)
for name in ('', 'x' * 129, 'a b', 'a/b', '../x', 'a\nb', '\u00e9'):
    check(f'no name of a session: {name[:10]!r}', refusal(aio.post, 'shell/sessions/create', id=name)[0] in (400, 422),
          True)
status, _ = refusal(aio.post, 'shell/exec', command='# ' + 'x' * (32 << 20))
check('a command without end', 400 <= status < 500, True)
check('a command is bounded in its output',
      len(aio.post('shell/exec', command='head -c 50000000 /dev/zero | tr "\\0" y', hard_timeout=60).output) <= 30100,
            True)
aio.delete('shell/sessions')
check('all of it over, a command runs as before', aio.post('shell/exec', command='echo x').output, 'x\n')
finish()
END2
PYTHONPATH=test/lib PYTHONDONTWRITEBYTECODE=1 program 'the attacks' python3 "$WORK/aio63.py" "$SOCKET" "$BOX" "$outside"

# ---- addresses, where a token is demanded: the key of a box is the only way in without one ----
write_tokens "$WORK/tokens.yaml"
if second_start "$WORK/tokens.yaml" "$program"; then
    as ann POST /v1/boxes '{"backend":"jail","thread":"t"}'
    box=$(j .id)
    as ann POST /v1/boxes '{"backend":"jail","thread":"u"}'
    other=$(j .id)
    key_of() { # the provisioner's word for where a box is has its key; of these it is made by hand
        python3 -c 'import hmac, sys
print(hmac.new(open(sys.argv[1], "rb").read(64), sys.argv[2].encode(), "sha256").hexdigest()[:32])' \
            "$STATE/aio-key" "box $1 $(jq -r .created_ms "$STATE/boxes/$1/box.json")"
    }
    key=$(key_of "$box")
    knock() { api POST "/aio/$1/v1/shell/exec" '{"command":"echo let in"}'; }
    knock "$box~$key"
    is 'the key of a box lets in' "$STATUS $(j .data.output)" '200 let in'
    f=$(printf 'f%.0s' {1..4000}) tildes=$(printf '~%.0s' {1..40})
    for name in "$box" "$box~" "$box~~" "$box~${key:0:31}" "$box~${key}0" "$box~${key:0:31}g" "$box~${key^^}x" \
        "$box~0${key:1}x" "$box~${f:0:32}" "$box~$f" \
        "$box~$key%00" "$box~$key%20" "$box~%20$key" "$box~$key~" "$box~~$key" "$box~$key~$key" "$other~$key" \
        "${box^^}~$key" "$box%00~$key" "0~$key" "~$key" \
        "~" "$tildes" "$(printf .%.0s {1..100})~$key" "${box:0:15}~$key" "0123456789abcdef~$key" \
        "$other~$(key_of "$box")"; do
        knock "$name"
        like "no key: ${name:0:60}" "$STATUS" '^40[0145]$'
        unlike 'nothing ran' "$BODY" 'let in'
    done
    for at in "/aio/$box~$key/../$other/v1/shell/exec" "/aio/$box~$key/..%2f$other/v1/shell/exec" \
        "/aio/$box~$key//aio/$other/v1/shell/exec"; do
        api POST "$at" '{"command":"echo let in"}' --path-as-is
        unlike "nor is another box behind it: ${at:5:24}..." "$BODY" 'let in'
    done
    for at in "/v1/boxes/$box~$key" "/v1/boxes/$box" "/v1/boxes" "/v1/mcp/servers" "/metrics"; do
        api GET "$at" '' -H "Authorization: Bearer $key" -H "X-AIO-API-Key: $key"
        is "a key is no token: ${at:0:14}" "$STATUS" 401
    done
    for id in "$box" "$other"; do as ann DELETE "/v1/boxes/$id"; done
    second_end
    is 'it ends in order' $? 0
else
    fail 'a daemon that demands tokens' "$(tail -5 "$WORK/daemon.log")"
    second_end
fi
box_use "$ATTACKED"
