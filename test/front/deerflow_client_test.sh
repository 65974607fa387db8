#!/bin/bash
# DeerFlow end to end, by a client of our own (test/lib/aio.py) that does what its gateway and its agents' tools do: a
# sandbox for a
# thread, the seven tools, files that both sides see, subagents with sessions of their own, cancelled calls, the warm
# pool, orphans.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
export PYTHONPATH=test/lib PYTHONDONTWRITEBYTECODE=1
HOME_DIR=$WORK/deer-flow
mkdir -p "$HOME_DIR/skills_view/public/draw" "$HOME_DIR/users/ann/threads/t1/user-data/uploads" \
    "$HOME_DIR/users/ann/skills_view/custom"
echo 'how to draw' > "$HOME_DIR/skills_view/public/draw/SKILL.md"
(umask 077; echo 'a letter' > "$HOME_DIR/users/ann/threads/t1/user-data/uploads/letter.txt")
cat > "$CONFIG" << END2
deerflow_home: $HOME_DIR
END2
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
POOL_SIZE=2
start_or_end "$DAEMON"
cat > "$WORK/client.py" << 'END2'
import os, sys, threading, time
from aio import *

sock, home = sys.argv[1:]
gateway = Gateway('http://localhost', socket_path=sock)
W, U, O = (f'/mnt/user-data/{name}' for name in ('workspace', 'uploads', 'outputs'))
host = f'{home}/users/ann/threads/t1/user-data'

# ---- a sandbox for a thread ----
caps = gateway.provisioner.capabilities()
check('no part of the lark integration is promised', (caps.lark_cli_init_image, caps.lark_cli_broker_image),
      (False, False))
box = gateway.sandbox_id('ann', 't1')
check('a thread without a sandbox has none', gateway.provisioner.find(box), None)
deer = gateway.acquire('t1', 'ann', extra_mounts=[
    {'host_path': f'{home}/users/ann/skills_view/custom', 'container_path': '/mnt/skills/custom', 'read_only': True}])
found = gateway.provisioner.find(box)
check('it is running, under the id that was asked for', (found.sandbox_id, found.status), (box, 'Running'))
check('at a URL below ours', '/aio/' + box + '~' in found.sandbox_url, True)
check('it is ready at the first look', gateway.ready(found.sandbox_url) < 1, True)
context = deer.aio.context()
check('it tells its home', context.home_dir.startswith('/'), True)
check('and its system', (context.detail.system.os != '', context.detail.system.user != ''), (True, True))

# ---- the seven tools ----
check('bash: output', deer.bash('echo one; echo two >&2'), 'one\ntwo\n')
check('bash: nothing', deer.bash('true'), '(no output)')
check('bash: an exit status', deer.bash('echo no; false'), 'no\n\nExit Code: 1')
check('bash: a status alone', deer.bash('(exit 3)'), 'Command exited with code 3')
check('bash: it begins in the workspace', deer.bash('pwd'), W + '\n')
deer.bash('export KEPT=yes; cd /tmp')
check('bash: what was exported is there later', deer.bash('echo $KEPT'), 'yes\n')
check('write_file', deer.write_file(f'{W}/a/b.py', 'def one():\n    return 1\n'), 'OK')
check('write_file appends', (deer.write_file(f'{W}/a/b.py', '# end\n', True), deer.read_file(f'{W}/a/b.py')),
      ('OK', 'def one():\n    return 1\n# end\n'))
check('read_file: lines from 2 to 3', deer.read_file(f'{W}/a/b.py', 2, 3).rstrip('\n'), '    return 1\n# end')
check('str_replace', (deer.str_replace(f'{W}/a/b.py', 'return 1', 'return 2'), deer.read_file(f'{W}/a/b.py')),
      ('OK', 'def one():\n    return 2\n# end\n'))
check('str_replace: not there', deer.str_replace(f'{W}/a/b.py', 'return 7', 'x'),
      f'Error: String to replace not found in file: {W}/a/b.py')
deer.write_file(f'{W}/c.txt', 'One line\nanother one\n')
deer.bash('mkdir -p a/node_modules && echo one > a/node_modules/x.py')
check('ls: two levels, the root itself first', sorted(deer.ls(W).split('\n')),
      sorted([W, f'{W}/a', f'{W}/a/b.py', f'{W}/a/node_modules', f'{W}/c.txt']))
check('ls: a directory that is not there', deer.ls(f'{W}/none'), f'Error: Directory not found: {W}/none')
check('ls: an empty one has itself', deer.ls(O), O)
check('glob', deer.glob('**/*.py', W), f'Found 1 paths under {W}\n1. {W}/a/b.py')
check('glob: nothing', deer.glob('*.rs', W), f'No files matched under {W}')
matches('glob: with directories', deer.glob(r'/a$', W, dirs=True), f'1\\. {W}/a$')
check('grep: any case, a regular expression', deer.grep('^one', W), f'Found 1 matches under {W}\n{W}/c.txt:1: One line')
check('grep: literally', deer.grep('one()', W, literal=True), f'Found 1 matches under {W}\n{W}/a/b.py:1: def one():')
check('grep: one file', deer.grep('another', f'{W}/c.txt'),
      f'Found 1 matches under {W}/c.txt\n{W}/c.txt:2: another one')
check('grep: nothing', deer.grep('zebra', W), f'No matches found under {W}')

# ---- failures are failures, with words ----
matches('read_file: not there', deer.read_file(f'{W}/none'),
      r"^Error: status_code: 404, .*No such file or directory: '/mnt/user-data/workspace/none'")
matches('read_file: a directory', deer.read_file(W), r'^Error: status_code: 4\d\d')
matches('write_file: into what is read-only', deer.write_file('/mnt/skills/public/draw/SKILL.md', 'x'),
      r'^Error: Failed to write')
matches('write_file: below a file', deer.write_file(f'{W}/c.txt/x', 'x'), r'^Error: Failed to write')
check('and nothing was written', deer.read_file('/mnt/skills/public/draw/SKILL.md'), 'how to draw\n')

# ---- files that both sides see ----
check('what the gateway uploaded for itself alone can be read', deer.read_file(f'{U}/letter.txt'), 'a letter\n')
check('also by a command', deer.bash(f'cat {U}/letter.txt'), 'a letter\n')
deer.bash(f'umask 077; echo made > {O}/result.txt; mkdir {O}/d; ln -s /etc/hostname {O}/d/link')
check('and the gateway can read what a command made', open(f'{host}/outputs/result.txt').read(), 'made\n')
check('it is as if the gateway had made it', os.stat(f'{host}/outputs/result.txt').st_uid, os.getuid())
check('links are not followed on its way out', os.path.islink(f'{host}/outputs/d/link'), True)
deer.update_file(f'{U}/x.bin', bytes(range(256)))
check('bytes arrive as they are', open(f'{host}/uploads/x.bin', 'rb').read(), bytes(range(256)))
check('and go back so', deer.aio.download(f'{U}/x.bin'), bytes(range(256)))
open(f'{host}/workspace/from-host', 'w').write('hello')
check('what the gateway writes is there at once', deer.read_file(f'{W}/from-host'), 'hello')
check('skills are there', deer.bash('cat /mnt/skills/public/draw/SKILL.md; ls -d /mnt/skills/custom'),
      'how to draw\n/mnt/skills/custom\n')
check('read-only', deer.bash('touch /mnt/skills/public/x /mnt/skills/custom/x 2> /dev/null || echo refused'),
      'refused\n')
check('another thread sees other files', gateway.acquire('t2', 'ann').bash(f'ls -A {W} {U} {O}'),
      f'{O}:\n\n{U}:\n\n{W}:\n')

# ---- environment of one command ----
check('a secret reaches its command',
      deer.bash('echo $TOKEN_OF_ANN; echo problem >&2', env={'TOKEN_OF_ANN': 's3cret'}),
            's3cret\n\nStd Error:\nproblem\n')
check('and no other', deer.bash('env | grep -c s3cret'), '0\n\nExit Code: 1')
check('its input is empty', deer.bash('cat; echo done', env={'X': '1'}), 'done\n')
matches('it can be timed out', deer.bash('echo begun; sleep 60', env={'X': '1'}, seconds=0.3),
      r'^begun\n\nCommand timed out after 0\.3 seconds')

# ---- subagents ----
first, second = deer.scope(), deer.scope()
deer.scoped(first, 'cd /tmp; NAME=first')
check('each has a shell of its own', (deer.scoped(first, 'echo $NAME $PWD'), deer.scoped(second, 'echo $NAME')),
      ('first /tmp\n', '\n'))
wait = f'mkdir -p {W}/meet && touch {W}/meet/%s && until [ -e {W}/meet/%s ]; do sleep 0.01; done; echo met'
check('they run at the same time',
      together([lambda: deer.scoped(first, wait % (1, 2), 20), lambda: deer.scoped(second, wait % (2, 1), 20)]),
      ['met\n', 'met\n'])
begin = time.monotonic()
check('a time-out ends the command', deer.scoped(first, 'sleep 60', 0.3),
      'Command timed out after 0.3 seconds and was terminated.\nExit Code: 124')
check('soon', time.monotonic() - begin < 15, True)
check('and leaves the shell', deer.scoped(first, 'echo $NAME $PWD'), 'first /tmp\n')
check('the end of one', (deer.scope_end(first), refusal(deer.exec, 'true', session=first)),
      (200, (404, 'Session not found')))
check('is not the end of the other', deer.scoped(second, 'echo here'), 'here\n')

# ---- a cancelled call ----
token = uuid.uuid4().hex
ended = []
call = threading.Thread(target=lambda: ended.append(deer.scoped(
    second, f'export {TOKEN}={token}; setsid sh -c "echo \\$\\$ > {W}/pid; exec sleep 600" & sleep 600', 600)))
call.start()
eventually(lambda: os.path.exists(f'{host}/workspace/pid') and os.path.getsize(f'{host}/workspace/pid'))
deer.abort(second, token)
call.join(30)
check('a cancelled call comes back', call.is_alive(), False)
check('and what it had detached is gone', deer.bash('kill -0 $(cat pid) 2> /dev/null || echo gone'), 'gone\n')

# ---- `exit` ----
data = deer.exec('export LOST=1; echo x; exit 0', 10)
check('exit is an end like another', (data.status, data.output, data.exit_code), ('completed', 'x\n', 0))
data = deer.exec('echo ${LOST:-a new shell}', 10)
check('after it there is a new shell', (data.status, data.output), ('completed', 'a new shell\n'))

# ---- warm pool, dead boxes, orphans ----
gateway.release('t1', 'ann')
again = gateway.acquire('t1', 'ann')
check('the sandbox of a thread that comes back is the same', again.read_file(f'{W}/c.txt'), 'One line\nanother one\n')
other = Gateway('http://localhost', socket_path=sock)
check('a second gateway finds it', other.acquire('t1', 'ann').read_file(f'{W}/from-host'), 'hello')
other.reconcile()
check('a new gateway adopts what a dead one left',
      sorted(other.warm) == sorted(set(gateway.sandbox_id('ann', t) for t in ('t1', 't2')) - set(other.active)), True)
gateway.provisioner.destroy(box)
check('what is destroyed is not there', (gateway.provisioner.find(box), gateway.provisioner.alive(box)), (None, False))
check('destroying again is no failure', gateway.provisioner.destroy(box).ok, True)
check('its address answers so', refusal(again.aio.post, 'shell/exec', command='true')[0], 404)
check('files of the thread are still there', gateway.acquire('t1', 'ann').read_file(f'{W}/c.txt'),
      'One line\nanother one\n')
other.active.clear()
other.reconcile()
other.end_idle()
check('all gone', gateway.provisioner.all().count, 0)
finish()
END2
program 'the client' python3 "$WORK/client.py" "$SOCKET" "$HOME_DIR"
stop_daemon
finish
