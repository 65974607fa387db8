#!/bin/bash
# Exchanges of the clients that are in use, replayed: test/front/exchanges/*.json. Each is a request as such a client
# sends it, the
# status, the schema that `data` must have (test/lib/aio.py), and members that the answer must have: a text that begins
# with ~ is a
# regular expression, an object may have more members. `keep` names what later requests use as ${NAME}. EXCHANGES: one
# file alone.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
export PYTHONPATH=test/lib PYTHONDONTWRITEBYTECODE=1
mkdir -p "$WORK/deer-flow"
echo "deerflow_home: $WORK/deer-flow" > "$CONFIG"
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
POOL_SIZE=1
start_or_end "$DAEMON"
cat > "$WORK/replay.py" << 'END2'
import sys
from aio import *

FERN = {'X-Fern-Language': 'Python', 'User-Agent': 'python-httpx/0.28.1', 'Accept': '*/*',
      'Accept-Encoding': 'gzip, deflate',
        'Connection': 'keep-alive'}


def unlike(want, got, at='answer'):
    """What of `got` is not as it is wanted; None: all is."""
    if isinstance(want, dict) and isinstance(got, dict):
        return next((m for k, v in want.items() if (m := unlike(v, got.get(k), f'{at}.{k}'))), None)
    if isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            return f'{at} has {len(got)} entries, not {len(want)}: {got!r:.300}'
        return next((m for k, v in enumerate(want) if (m := unlike(v, got[k], f'{at}[{k}]'))), None)
    if isinstance(want, str) and want.startswith('~'):
        return None if isinstance(got, str) and re.search(want[1:], got, re.S) else f'{at} is {got!r:.300}, not {want}'
    return None if got == want else f'{at} is {got!r:.300}, not {want!r}'


def filled(value, names):
    if isinstance(value, dict):
        return {k: filled(v, names) for k, v in value.items()}
    if isinstance(value, list):
        return [filled(v, names) for v in value]
    return re.sub(r'\$\{(\w+)\}', lambda m: names.get(m[1], ''), value) if isinstance(value, str) else value


def replay(http, base, step, names):
    request = filled(step['request'], names)
    path = request['path']
    if not path.startswith('/api') and path != '/health':
        path = base + path
    status, value = http.json(request['method'], path, request.get('body'),
          headers={**FERN, **request.get('headers', {})})
    if status != step.get('status', 200):
        return f'status {status}: {value!r:.400}'
    shape = step.get('shape')
    whole = shape in ('SandboxResponse', 'HTTPValidationError', 'Sandbox', 'Sandboxes', 'Deleted', 'Capabilities')
    if shape and (problem := misfit(shape, value if whole else (value or {}).get('data'), 'answer')):
        return f'{problem}: {value!r:.400}'
    if problem := unlike(filled(step.get('answer', {}), names), value):
        return problem
    for name, where in step.get('keep', {}).items():
        found = value
        for member in where.split('.'):
            found = found[member]
        names[name] = found


sock, files = sys.argv[1], sys.argv[2:]
for number, file in enumerate(files):
    box = f'{number + 1:016x}'
    http = Http('http://localhost', socket_path=sock)
    created = Provisioner('http://localhost', socket_path=sock).create(box, f'replay-{number}')
    names = {'BOX': box}
    for step in json.load(open(file)):
        check(f'{file.split("/")[-1][:-5]}: {step["name"]}', replay(http, '/aio/' + box, step, names), None)
    status, _, text = http.send('DELETE', '/api/sandboxes/' + box)
    check(f'{file.split("/")[-1][:-5]}: its sandbox is destroyed', (status, json.loads(text)),
          (200, {'ok': True, 'sandbox_id': box}))
finish()
END2
program 'the replay' python3 "$WORK/replay.py" "$SOCKET" test/front/exchanges/${EXCHANGES:-*}.json
stop_daemon
finish
