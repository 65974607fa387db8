#!/bin/bash
# What DeerFlow's users complain about, where it is a server's doing: each has a number and is a test that fails where
# the trouble is
# back. 12: guards that scan texts. 13 and 14 are about the client's own machine (Windows, a proxy in its environment).
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
export PYTHONPATH=test/lib PYTHONDONTWRITEBYTECODE=1
HOME_DIR=$WORK/deer-flow
mkdir -p "$HOME_DIR" "$WORK/data"
echo 'rows' > "$WORK/data/table.csv"
cat > "$CONFIG" << END2
deerflow_home: $HOME_DIR
deerflow_mounts:
  - {source: $WORK/data, target: /mnt/data, read_only: true}
idle_timeout_ms: 60000
END2
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
POOL_SIZE=2
start_or_end "$DAEMON"
cat > "$WORK/complaints.py" << 'END2'
import os, sys, time
from aio import *

sock, home = sys.argv[1:3]
W, U, O = (f'/mnt/user-data/{name}' for name in ('workspace', 'uploads', 'outputs'))
gateway = Gateway('http://localhost', socket_path=sock)
box_of = Gateway.sandbox_id


def host(thread):
    return f'{home}/users/default/threads/{thread}/user-data'


def first():
    begin = time.monotonic()
    deer = gateway.acquire('one')
    deer.bash('true')
    check('1: a sandbox, its ready check and its first command take less than a second', time.monotonic() - begin < 1,
          True)

    # 2: one implicit session, many callers, no lock on their side
    results = together([lambda k=k: deer.exec(f'echo {k}; echo {k} >&2', 60).output for k in range(16)])
    check('2: commands at once in one session each have their own output', results, [f'{k}\n{k}\n' for k in range(16)])

    def subagent(k):
        session = deer.scope()
        deer.scoped(session, f'K={k}; cd /tmp')
        out = deer.scoped(session, 'echo $K $PWD')
        return out, deer.scope_end(session)

    check('2: subagents at once have sessions of their own, and none is missing',
          together([lambda k=k: subagent(k) for k in range(12)]),
          [(f'{k} /tmp\n', 200) for k in range(12)])

    # 3: several gateways for one thread
    gateways = [Gateway('http://localhost', socket_path=sock) for _ in range(6)]
    deers = together([lambda g=g: g.acquire('shared') for g in gateways])
    check('3: gateways that ask at once get one sandbox',
          len({d.aio.http.prefix if isinstance(d, Deer) else repr(d) for d in deers}), 1)
    deers[0].write_file(f'{W}/kept', 'kept')
    running = []
    thread = threading.Thread(target=lambda: running.append(deers[1].bash('touch begun; sleep 60')))
    thread.start()
    eventually(lambda: os.path.exists(f'{host("shared")}/workspace/begun'))
    gateways[2].active.clear()
    gateways[2].reconcile()
    gateways[2].provisioner.destroy(box_of('default', 'shared'))
    thread.join(30)
    check('3: a command in a sandbox that another gateway destroys comes back', thread.is_alive(), False)
    matches('3: and says what happened', running[0], 'Error|terminated')
    check('3: the next call of its gateway has a sandbox again, with its files',
          gateways[1].acquire('shared').read_file(f'{W}/kept'), 'kept')

    # 6: time limits
    begin = time.monotonic()
    check('6: a time limit is kept', deer.bash('sleep 60', seconds=0.3),
          'Command timed out after 0.3 seconds and was terminated.\nExit Code: 124')
    data = deer.aio.post('shell/exec', command='sleep 1.3; echo late', no_change_timeout=600)
    check('6: silence that was allowed cuts nothing', (data.status, data.output), ('completed', 'late\n'))
    data = deer.exec('echo x; exit 0', 30)
    check('6: `echo x; exit 0` is answered', (data.status, data.output, data.exit_code), ('completed', 'x\n', 0))
    check('6: and blocks nothing', deer.bash('echo on'), 'on\n')
    check('6: all of it soon', time.monotonic() - begin < 25, True)

    # 7: owners
    os.makedirs(f'{host("one")}/uploads', exist_ok=True)
    with open(os.open(f'{host("one")}/uploads/mine', os.O_CREAT | os.O_WRONLY, 0o600), 'w') as file:
        file.write('for my eyes')
    check('7: what the gateway uploads with mode 600 can be read in the sandbox',
          (deer.read_file(f'{U}/mine'), deer.bash(f'cat {U}/mine; echo')),
          ('for my eyes', 'for my eyes\n'))
    check('7: and be changed there', deer.bash(f'echo more >> {U}/mine && echo fine'), 'fine\n')
    deer.bash(f'umask 077; mkdir {O}/private; echo result > {O}/private/x')
    check('7: and the gateway reads what the sandbox made with umask 077',
          open(f'{host("one")}/outputs/private/x').read(), 'result\n')

    # 8: mounts
    check('8: a mount of the configuration is there',
          deer.bash('cat /mnt/data/table.csv; touch /mnt/data/x 2> /dev/null || echo read-only'), 'rows\nread-only\n')
    wanted = [{'host_path': f'{home}/users/default/threads/e8/acp-workspace', 'container_path': '/mnt/acp-workspace',
          'read_only': True}]
    gateway.acquire('e8', extra_mounts=wanted)
    open(f'{wanted[0]["host_path"]}/plan', 'w').write('plan')
    check('8: a directory of a mount that is not there yet is made, where the gateway finds it',
          gateway.acquire('e8').read_file('/mnt/acp-workspace/plan'), 'plan')
    status, detail = refusal(gateway.provisioner.create, '00000000000000e8', 'e9',
          extra_mounts=[{**wanted[0], 'host_path': '/srv/not/yours'}])
    check('8: a mount that cannot be is not left out: it is refused, by its name',
          (status, '/srv/not/yours' in str(detail)), (400, True))
    check('8: and no half sandbox is left', gateway.provisioner.find('00000000000000e8'), None)

    # 9: the host
    check('9: no engine is in reach',
          deer.bash('ls /var/run/docker.sock /run/docker.sock /run/podman 2> /dev/null | wc -l'), '0\n')
    open(f'{home}/../marker', 'w').write('x')
    check('9: nor the host',
          deer.bash(f'ls {os.path.dirname(os.path.abspath(home))} 2> /dev/null; '
                    f'ls /proc/{os.getpid()}/cwd 2> /dev/null; true'), '(no output)')
    check('9: root in it is not root',
          deer.bash('{ echo 1 > /proc/sys/kernel/hostname || mount -t proc p /mnt || reboot -f; } 2> /dev/null '
                    '|| echo no'), 'no\n')

    # 10: the network
    check('10: no way to the network of the host',
          deer.bash('for a in 169.254.169.254/80 127.0.0.1/22 10.0.0.1/80; do '
                    '(exec 3<> /dev/tcp/$a) 2> /dev/null && echo $a; done; true',
                                                           seconds=20), '(no output)')

    # 11: paths
    texts = [deer.bash('pwd; ls -la'), deer.ls('/mnt'), deer.glob('**', '/mnt/user-data'),
          deer.read_file('/mnt/user-data/workspace/none'),
             deer.write_file('/mnt/data/x', 'x'), deer.read_file('/mnt/data/none'), deer.grep('x', '/mnt/none'),
                   deer.bash(f'cat {W}/none')]
    check('11: no path of the host in any answer', [t for t in texts if home in t], [])
    check('11: names that begin alike are left alone',
          deer.bash('echo /mnt/user-data-backup /mnt/user-data:/mnt/user-data/workspace'),
          '/mnt/user-data-backup /mnt/user-data:/mnt/user-data/workspace\n')

    # 12: no text is scanned
    check('12: nothing that a text contains is refused',
          deer.bash("x=$(echo 'https://a.b/../c'); echo $x /etc/../etc file:///x '$(curl x)'"),
          'https://a.b/../c /etc/../etc file:///x $(curl x)\n')

    # 15: what a client relies on is there
    check('15: the environment of a command works', deer.bash('echo $A', env={'A': 'b'}), 'b\n')
    out = deer.bash('nohup sleep 4242 > /dev/null 2>&1 & echo begun', env={'A': 'b'})
    check('a server that a command with an environment started in the background lives on',
          (out, eventually(lambda: deer.bash('pgrep -f "^sleep 4242" | wc -l') == '1\n')), ('begun\n', True))
    session = deer.scope()
    deer.scoped(session, 'nohup sleep 4243 > /dev/null 2>&1 & setsid sleep 4244 > /dev/null 2>&1 & sleep 4245 &')
    eventually(lambda: deer.bash('pgrep -f "^sleep 424[345]" | wc -l') == '3\n')
    deer.scope_end(session)
    eventually(lambda: deer.bash('pgrep -f "^sleep 4245" | wc -l') == '0\n')
    check('and so does what a subagent detached from its shell, and nothing else',
          deer.bash('pgrep -f "^sleep 424[345]" | wc -l; pkill -f "^sleep 424"'), '2\n')
    session = deer.scope()
    deer.aio.post('shell/exec', id=session, command='export DF_TOKEN=abc; sleep 4246', async_mode=True)
    found = 'grep -lsa DF_TOKEN=abc /proc/[0-9]*/environ | wc -l'
    eventually(lambda: deer.bash(found) == '1\n')
    check('what an aborting gateway looks for in the environments of other sessions is there',
          deer.bash(found, env={'A': 'b'}), '1\n')
    deer.scope_end(session)
    data = deer.exec("trap '' INT; sleep 60; touch after", 0.3)
    check('6: nothing of a command goes on after its time, whatever it ignores',
          (data.status, deer.bash('ls after')[:3]), ('hard_timeout', 'ls:'))
    check('15: also in a session that nobody made',
          deer.aio.post('bash/exec', command='echo x', session_id='never-made').stdout, 'x\n')
    check('15: a version is told', bool(deer.aio.context().version), True)

    # further ones
    for route, body in {'find': {'glob': '*'}, 'list': {}, 'grep': {'pattern': 'x'}, 'glob': {'pattern': '*'}}.items():
        check(f'5263: {route} of what is not there is a failure',
              refusal(deer.aio.post, 'file/' + route, path='/mnt/none', **body)[0], 404)
    deer.bash('mkdir -p build/x && echo needle > build/x/y')
    check('5666: names of directories above hide nothing',
          len(deer.aio.post('file/grep', path=f'{W}/build/x', pattern='needle').matches), 1)
    together([lambda k=k: deer.write_file(f'{W}/log', f'{k:03}\n', True) for k in range(24)])
    check('5260: appends at once lose nothing', sorted(deer.read_file(f'{W}/log').split()),
          [f'{k:03}' for k in range(24)])
    deer.aio.post('file/write', file=f'{W}/sudo/made', content='x', sudo=True)
    check('sudo writes into directories of the host as their owner',
          (deer.read_file(f'{W}/sudo/made'), os.stat(f'{host("one")}/workspace/sudo/made').st_uid), ('x', os.getuid()))
    results = together([lambda k=k: deer.aio.post('file/write', file=f'/etc/as-root-{k}', content='x',
          sudo=True).file for k in range(8)])
    check('agent-infra 85: writes at once with sudo do not meet', results, [f'/etc/as-root-{k}' for k in range(8)])
    stats = deer.aio.get('shell/sessions/stats')
    for _ in range(stats.max_sessions + 2 - stats.total_sessions):
        refusal(deer.scope)
    stats = deer.aio.get('shell/sessions/stats')
    check('agent-infra 228: beyond the limit the oldest that is idle goes',
          (stats.total_sessions, refusal(deer.scope)[0]), (stats.max_sessions, 200))
    check('agent-infra 228: and commands go on', deer.bash('echo on'), 'on\n')
    deer.aio.delete('shell/sessions')
    deer.write_file(f'{W}/here', 'here')


def after():
    """5: the processes of the sandbox were killed; 4: the daemon too, and another has its place."""
    deer = Deer('http://localhost/aio/' + box_of('default', 'one'), sock)
    check('5: a dead sandbox is none: the call starts it again', deer.bash('cat here; echo'), 'here\n')
    check('5: its provisioner says that it runs', gateway.provisioner.alive(box_of('default', 'one')), True)


def restarted():
    gateway.reconcile()
    check('4: sandboxes of a daemon that was killed are known to the next', box_of('default', 'one') in gateway.warm,
          True)
    check('4: and work', gateway.acquire('one').bash('cat here; echo'), 'here\n')
    gateway.acquire('idle').bash('echo here > here')


def idle():
    deer = Deer('http://localhost/aio/' + box_of('default', 'idle'), sock)
    check('4: one that was ended for being idle comes back with its files', deer.bash('cat here'), 'here\n')
    gateway.reconcile()
    gateway.end_idle()
    check('4: what a gateway ends is gone', gateway.provisioner.all().count, 0)


globals()[sys.argv[3]]()
finish()
END2
complaints() { program "complaints: $1" python3 "$WORK/complaints.py" "$SOCKET" "$HOME_DIR" "$1"; }
complaints first
BOX=$(printf %s default:one | sha256sum | cut -c1-16)

# 1: what an idle sandbox weighs: its processes, shared pages divided
weight() { # weight PID...: KiB, of them and all below
    local pid sum=0
    for pid in "$@"; do
        sum=$((sum + $(awk '/^Pss:/ { print $2 }' "/proc/$pid/smaps_rollup" 2> /dev/null || echo 0)))
        sum=$((sum + $(weight $(cat "/proc/$pid/task/$pid/children" 2> /dev/null))))
    done
    echo $sum
}
between '1: an idle sandbox takes a few megabytes at most' "$(weight $(runner_of "$BOX"))" 100 8000

# 5: dead processes
RUNNER=$(runner_of "$BOX" | head -1)
kill -KILL "$RUNNER"
ok '5: its processes are gone' eventually 20 test ! -d "/proc/$RUNNER"
complaints after

# 4: a daemon that is killed
kill -KILL "$DAEMON_PID"
wait "$DAEMON_PID" 2> /dev/null
sed -i 's/idle_timeout_ms: .*/idle_timeout_ms: 1500/' "$CONFIG"
start_daemon "$DAEMON"
complaints restarted

# 4: nobody asks for it any more
BOX=$(printf %s default:idle | sha256sum | cut -c1-16)
ended() { [ -z "$(runner_of "$BOX")" ] || ! kill -0 "$(runner_of "$BOX")" 2> /dev/null; }
ok '4: processes that nobody asks for end by themselves' eventually 30 ended
complaints idle
stop_daemon

# 10: on an address that others reach nothing answers without a token or a key
rm -rf "$STATE"
write_tokens "$CONFIG"
printf 'deerflow_home: %s\ndeerflow_api_key: provisioner-key-0123456789\n' "$HOME_DIR" >> "$CONFIG"
start_daemon "$DAEMON"
api GET /health
is '10: health is open' "$STATUS" 200
for key in '' wrong provisioner-key-012345678 provisioner-key-01234567890; do
    api GET /api/sandboxes '' ${key:+-H "X-API-Key: $key"}
    is "10: the provisioner wants its key, not '$key'" "$STATUS" 401
done
KEY='X-API-Key: provisioner-key-0123456789'
api POST /api/sandboxes '{"sandbox_id":"00000000000000a1","thread_id":"t","user_id":"ann"}' -H "$KEY"
is '10: with it there is a sandbox' "$STATUS" 200
URL=$(j .sandbox_url)
URL=${URL#http://localhost}
like '10: whose address has a key of its own' "$URL" '^/aio/00000000000000a1~[0-9a-f]{32}$'
api POST "$URL/v1/shell/exec" '{"command":"echo x"}'
is '10: which is enough' "$STATUS $(j .data.output)" '200 x'
for at in /aio/00000000000000a1 /aio/00000000000000a1~00000000000000000000000000000000 "${URL%?}" "${URL}0" \
    /aio/00000000000000a2~"${URL#*~}"; do
    api POST "$at/v1/shell/exec" '{"command":"echo x"}'
    isnt "10: $at is not" "$STATUS" 200
done
unlike '10: no key is in the log' "$(cat "$WORK/daemon.log")" "${URL#*~}|provisioner-key"
api DELETE /api/sandboxes/00000000000000a1 '' -H "$KEY"
is '10: its end needs the key too' "$STATUS" 200
api POST "$URL/v1/shell/exec" '{"command":"echo x"}'
is '10: its address is nothing then' "$STATUS" 404
api POST "$URL/v1/bash/exec" '{"command":"echo x","env":{"A":"b"}}'
is '15: which is no missing route' "$STATUS" 410
kill -TERM "$DAEMON_PID"
wait "$DAEMON_PID"
is 'the daemon ends in order' $? 0
DAEMON_PID=
finish
