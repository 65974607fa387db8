#!/bin/bash
# Sessions under load: many clients with sessions of their own in a few boxes, and one that all of them share, beside a
# model of what
# each shell must be like. LOAD_STEPS, LOAD_SEED: longer, or one again.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
export PYTHONPATH=test/lib PYTHONDONTWRITEBYTECODE=1
write_config
DAEMON=$BUILD/asan/cubbyd
[ -x "$DAEMON" ] || DAEMON=$BUILD/cubbyd
POOL_SIZE=2
start_or_end "$DAEMON"
cat > "$WORK/load.py" << 'END2'
import random, sys
from aio import *

sock, steps, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
provisioner = Provisioner('http://localhost', socket_path=sock)
boxes = [Aio(provisioner.create(f'{k + 1:016x}', f'load-{k}').sandbox_url, socket_path=sock) for k in range(3)]
WORKERS = 15
counts = {}


class Worker:
    def __init__(self, number):
        self.random, self.aio, self.number = random.Random(seed * 1000 + number), boxes[number % len(boxes)], number
        self.generation, self.wrong = 0, []
        self.open()

    def open(self):
        self.generation += 1
        self.id, self.count, self.cwd = f'w{self.number}-{self.generation}', 0, None
        created = self.aio.post('shell/sessions/create', id=self.id, exec_dir='/tmp')
        self.expect('open', (created.session_id, created.working_dir), (self.id, '/tmp'))
        self.cwd = '/tmp'

    def expect(self, what, got, want):
        if got != want:
            self.wrong.append(f'{self.id} {what}: got {got!r:.200}, want {want!r:.200}')

    def run(self, command, **more):
        return self.aio.post('shell/exec', id=self.id, command=command, **more)

    def add(self):
        self.count += 1
        data = self.run('n=$((n + 1)); echo $n $PWD')
        self.expect('add', (data.status, data.output, data.exit_code), ('completed', f'{self.count} {self.cwd}\n', 0))

    def move(self):
        self.cwd = self.random.choice(['/tmp', '/', '/usr/bin'])
        data = self.run(f'cd {self.cwd} && false')
        self.expect('move', (data.status, data.output, data.exit_code), ('completed', '', 1))

    def print(self):
        size = self.random.choice([1, 4095, 4096, 4097, 29000])
        data = self.run(f'head -c {size} /dev/zero | tr "\\0" {self.number % 10}')
        self.expect('print', data.output, str(self.number % 10) * size)

    def late(self):
        data = self.run('echo begun; sleep 30; echo never', hard_timeout=0.05)
        self.expect('late', (data.status, data.output), ('hard_timeout', data.output and 'begun\n'))

    def leave(self):
        code = self.random.randrange(256)
        data = self.run(f'echo bye; exit {code}')
        self.expect('leave', (data.status, data.output, data.exit_code), ('completed', 'bye\n', code))
        self.expect('gone', refusal(self.run, 'true'), (404, 'Session not found'))
        self.open()

    def end(self):
        self.aio.delete('shell/sessions/' + self.id)
        self.expect('ended', refusal(self.run, 'true'), (404, 'Session not found'))
        self.open()

    def kill(self):
        self.run('sleep 30', async_mode=True)
        self.aio.post('shell/kill', id=self.id)
        data = self.run('echo ${n:-0} $PWD')
        self.expect('killed', (data.status, data.output), ('completed', f'{self.count} {self.cwd}\n'))

    def shared(self):
        word = f'{self.number}-{self.random.random()}'
        data = self.aio.post('shell/exec', command=f'echo {word}; echo {word} >> /tmp/shared')
        self.expect('shared', (data.status, data.output), ('completed', word + '\n'))
        counts.setdefault(self.number % len(boxes), []).append(word)

    def work(self):
        for _ in range(steps):
            step = self.random.choices(['add', 'move', 'print', 'late', 'leave', 'end', 'kill', 'shared'],
                  [8, 3, 4, 1, 2, 1, 1, 5])[0]
            try:
                getattr(self, step)()
            except Failure as failure:
                self.wrong.append(f'{self.id} {step}: {failure}')
                self.open()
        return self.wrong


results = together([lambda k=k: Worker(k).work() for k in range(WORKERS)])
check('each shell is as its model says', [r for r in results if r], [])
for number, aio in enumerate(boxes):
    check(f'nothing is lost or mixed in the shared session of box {number}',
          sorted(aio.post('file/read', file='/tmp/shared').content.split()),
          sorted(counts.get(number, [])))
    aio.delete('shell/sessions')
    check(f'no session is left in box {number}', aio.get('shell/sessions').sessions, {})
    left = aio.post('bash/exec', command='ps -eo args= | grep -c "[s]leep 30"').stdout
    check('nor anything that one started', left, '0\n')
finish()
END2
seed=${LOAD_SEED:-$SRANDOM}
diag "seed $seed"
program 'the load' python3 "$WORK/load.py" "$SOCKET" "${LOAD_STEPS:-25}" "$seed"
stop_daemon
finish
