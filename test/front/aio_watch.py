"""The checks of aio_watch_test.sh. Arguments: the daemon's socket, two boxes."""
import http.client, json, sys, threading, time
from aio import Aio, Failure, Http, Unix, check, eventually, finish, matches, refusal, together

socket_path, box, other_box = sys.argv[1:4]
aio, other = (Aio('http://localhost/aio/' + id, socket_path=socket_path) for id in (box, other_box))
native = Http('http://localhost/v1/boxes/' + box, socket_path=socket_path)
W = '/workspace/w'


def sh(command, at=native):
    status, value = at.json('POST', '/exec', {'command': command})
    if status != 200 or value['exit_code'] != 0:
        raise Exception(f'{command}: {value}')
    return value['stdout']


def watch(path=W, debounce=50, **more):
    return aio.post('file/watch', path=path, debounce=debounce, **more)


def poll(watcher, **more):
    return aio.post(f'file/watch/{watcher}/poll', **more)


def until(watcher, last, cursor=0):
    """All events behind the cursor up to the first one of (type, relative path)."""
    events, end = [], time.monotonic() + 30
    while time.monotonic() < end:
        answer = poll(watcher, cursor=cursor, timeout=5)
        events += answer.events
        cursor = answer.cursor
        if any((e.type, e.relative_path) == last for e in answer.events):
            return events, cursor
    return events, cursor


def told(events):
    return [(e.type, e.relative_path) for e in events]


def stop(watcher):
    return aio.delete(f'file/watch/{watcher}')


sh('mkdir -p w/sub w/node_modules/deep; touch w/old.txt')

# ---- create and poll ----

made = watch()
matches('an id', made.watcher_id, '^[0-9a-f]{12}$')
check('what it is', (made.path, made.status, made.reused, made.initial_cursor, type(made.created_at)), (W, 'running', False, 0, float))
id = made.watcher_id
answer = poll(id)
check('nothing yet', (answer.events, answer.cursor, answer.overflow), ([], 0, False))
sh('echo one > w/new.txt')
events, cursor = until(id, ('write', 'new.txt'))
check('a file that comes', told(events), [('create', 'new.txt'), ('write', 'new.txt')])
event = events[-1]
check('an event', (event.path, event.old_path, event.is_dir, event.size, event.seq), (W + '/new.txt', None, False, 4, 2))
check('numbers of it', (event.inode, abs(event.mtime - time.time()) < 100, abs(event.timestamp - time.time()) < 100),
      (int(sh('stat -c %i w/new.txt')), True, True))
check('behind the cursor there is nothing', poll(id, cursor=cursor).events, [])
check('the same again from 0', told(poll(id).events), told(events))
check('some of it', (told(poll(id, limit=1).events), poll(id, limit=1).cursor), ([('create', 'new.txt')], 1))
sh('mv w/new.txt w/sub/moved.txt')
events, cursor = until(id, ('rename', 'sub/moved.txt'), cursor)
check('a new name', [(e.type, e.path, e.old_path) for e in events], [('rename', W + '/sub/moved.txt', W + '/new.txt')])
sh('chmod 600 w/sub/moved.txt')
events, cursor = until(id, ('chmod', 'sub/moved.txt'), cursor)
check('other rights', told(events), [('chmod', 'sub/moved.txt')])
sh('rm w/sub/moved.txt')
events, cursor = until(id, ('remove', 'sub/moved.txt'), cursor)
check('an end', [(e.type, e.is_dir, e.size, e.mtime, e.inode) for e in events if e.type == 'remove'], [('remove', False, None, None, None)])
sh('mkdir -p w/made/below; touch w/made/below/f; rmdir w/sub')
events, cursor = until(id, ('remove', 'sub'), cursor)
check('directories', [(e.relative_path, e.is_dir) for e in events if e.type != 'chmod'],
      [('made', True), ('made/below', True), ('made/below/f', False), ('sub', True)])
aio.post('file/write', file=W + '/whole.txt', content='x')
events, cursor = until(id, ('create', 'whole.txt'), cursor)
check('a write of ours shows no file of its own', [path for _, path in told(events)], ['whole.txt'])
sh('mkdir w/.git; touch w/.git/x w/node_modules/deep/y w/a.pyc; touch w/last')
events, cursor = until(id, ('create', 'last'), cursor)
check('what is usually left out', [path for _, path in told(events) if path != 'last'], [])
sh('mkdir w/plain; mv w/plain w/__pycache__; mv w/__pycache__ w/plain; touch w/plain/inside')
events, cursor = until(id, ('create', 'plain/inside'), cursor)
check('into what is left out and back', [e for e in told(events) if e[0] in ('create', 'remove')],
      [('create', 'plain'), ('remove', 'plain'), ('create', 'plain'), ('create', 'plain/inside')])

# ---- debounce, patterns ----

slow = watch(debounce=600, exclude=[]).watcher_id
sh('for i in 1 2 3 4 5 6 7 8 9; do echo $i >> w/often; done; touch w/node_modules/deep/z')
events, _ = until(slow, ('create', 'node_modules/deep/z'))
check('many writes at once are one', [e for e in told(events) if e[1] == 'often'], [('create', 'often'), ('write', 'often')])
check('as it was at the end', [e.size for e in events if e.type == 'write' and e.relative_path == 'often'], [18])
sh('echo 1 > w/again; rm w/again; echo 22 > w/again; touch w/behind')
events, _ = until(slow, ('create', 'behind'))
check('what comes, goes and comes again is there at the end', [e[0] for e in told(events) if e[1] == 'again' and e[0] != 'write'],
      ['create', 'remove', 'create'])
check('and as it is then', [e.size for e in events if e.relative_path == 'again'][-1], 3)
some = watch(include_patterns=['*.md', 'made/**'], exclude=['x*', 'made/below']).watcher_id
sh('touch w/no.txt w/x.md w/made/below/n w/made/yes w/a.md')
events, _ = until(some, ('create', 'a.md'))
check('patterns', [e for e in told(events) if e[0] == 'create'], [('create', 'made/yes'), ('create', 'a.md')])
flat = watch(recursive=False).watcher_id
sh('touch w/made/deeper w/here')
events, _ = until(flat, ('create', 'here'))
check('not below', [e for e in told(events) if e[0] == 'create'], [('create', 'here')])
one = watch(path=W + '/old.txt', include_patterns=['*.none']).watcher_id
sh('touch w/beside; echo x >> w/old.txt')
events, _ = until(one, ('write', '.'))
check('one file', {e.path for e in events}, {W + '/old.txt'})

# ---- list, reuse, end ----

listed = {w.watcher_id: w for w in aio.get('file/watch')}
check('a list', set(listed), {id, slow, some, flat, one})
check('of what', (listed[flat].path, listed[flat].recursive, listed[flat].status, listed[flat].latest_seq > 0), (W, False, 'running', True))
check('of this box alone', (other.get('file/watch'), refusal(other.post, f'file/watch/{id}/poll')), ([], (404, 'Watcher not found')))
again = watch()
check('the same again is the same one', (again.watcher_id, again.reused, again.initial_cursor >= cursor), (id, True, True))
check('which ends with its second end', (stop(id).status, poll(id).overflow, stop(id).status), ('running', False, 'stopped'))
check('then it is not there', (refusal(poll, id), refusal(stop, id)), ((404, 'Watcher not found'),) * 2)
for watcher in (slow, some, flat):
    stop(watcher)
kept = watch().watcher_id
results = together([lambda: (lambda made: (poll(made).overflow, stop(made).watcher_id == made))(watch().watcher_id) for _ in range(40)])
check('one that is asked for while others end it is there', set(results), {(False, True)})
lines = watch(include_patterns=['a', 'b']).watcher_id
check('a line end in a pattern does not make two of it', watch(include_patterns=['a\nb']).reused, False)
stop(kept)

# ---- waiting ----

id = watch().watcher_id
started = time.monotonic()
check('a poll that waits in vain', (poll(id, timeout=1).events, 0.9 < time.monotonic() - started < 20), ([], True))
results = together([lambda: told(poll(id, timeout=30).events), lambda: eventually(lambda: listed_readers() > 0) and sh('touch w/woken')])


def listed_readers():
    return sum(w.subscriber_count for w in aio.get('file/watch'))


results = together([lambda: told(poll(id, cursor=poll(id, limit=1000).cursor, timeout=30).events),
                    lambda: eventually(lambda: listed_readers() > 0) and sh('touch w/woken2')])
check('one that is woken', results[0][:1], [('create', 'woken2')])
results = together([lambda: poll(id, cursor=10 ** 9, timeout=30).events, lambda: eventually(lambda: listed_readers() > 0) and stop(id).status])
check('one whose watcher is ended', results, [[], 'stopped'])


def wait(path, **more):
    return aio.post('file/watch/wait', path=W + path, **more)


check('what is there already', (wait('/old.txt').event.type, wait('/old.txt', event_types=['create']).event.path), ('create', W + '/old.txt'))
started = time.monotonic()
check('nothing happens', refusal(wait, '/old.txt', timeout=1, event_types=['write']), (503, 'timed out waiting for file event'))
check('and it took its time', 0.9 < time.monotonic() - started < 20)


def happening(command, path, **more):
    """The event that a wait answers when the command is run again and again meanwhile."""
    done = threading.Event()

    def work():
        while not done.wait(0.05):
            sh(command)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        event = wait(path, timeout=60, **more).event
        return event.type, event.path, event.old_path
    finally:
        done.set()
        worker.join()


check('a file to come', happening('touch w/to.come', '/to.come'), ('create', W + '/to.come', None))
check('a write', happening('echo >> w/old.txt', '/old.txt', event_types=['write', 'remove']), ('write', W + '/old.txt', None))
check('a new name', happening('[ -e w/to.come ] && mv w/to.come w/gone || mv w/gone w/to.come', '/gone', event_types=['rename'])[0], 'rename')
check('an end', happening('touch w/brief; rm w/brief', '/brief', event_types=['remove']), ('remove', W + '/brief', None))
check('in a directory', happening('touch w/made/a; rm w/made/a', '/made', event_types=['remove']), ('remove', W + '/made/a', None))
check('in a directory that is not there', refusal(wait, '/no/where', timeout=1)[0], 404)
check('for a change that there is not', refusal(wait, '/old.txt', event_types=['move'])[0], 422)

# ---- the stream ----


class Stream:
    def __init__(self, watcher, headers={}):
        self.connection = Unix(socket_path, 60)
        self.connection.request('GET', f'/aio/{box}/v1/file/watch/{watcher}/events', headers={'accept': 'text/event-stream', **headers})
        self.answer = self.connection.getresponse()

    def next(self):
        """event, id, data of the next one"""
        event = {}
        while line := self.answer.readline():
            key, _, value = line.decode().rstrip('\n').partition(': ')
            if key:
                event[key] = value
            elif 'event' in event:
                return event['event'], event['id'], json.loads(event['data'])

    def close(self):
        self.answer.close()
        self.connection.close()


id = watch().watcher_id
stream = Stream(id)
check('a stream', (stream.answer.status, stream.answer.headers['content-type'].split(';')[0]), (200, 'text/event-stream'))
event = stream.next()
check('its begin', (event[0], event[1], event[2]['watcher_id']), ('watch_started', id + ':0', id))
sh('echo s > w/streamed')
event = stream.next()
check('a change', (event[0], event[1], event[2]['type'], event[2]['relative_path']), ('file_change', id + ':1', 'create', 'streamed'))
stream.close()
sh('touch w/missed')
until(id, ('create', 'missed'))
stream = Stream(id, {'last-event-id': id + ':2'})
check('coming back', (stream.next()[0], stream.next()[2]['relative_path']), ('watch_started', 'missed'))
stop(id)
while stream.next():
    pass
check('the end of the watcher is the end of the stream', stream.answer.read(), b'')
stream.close()
check('a stream of nothing', refusal(aio.get, 'file/watch/ffffffffffff/events'), (404, 'Watcher not found'))

# ---- bounds ----

sh('mkdir flood')
id = watch(path='/workspace/flood').watcher_id
sh('cd flood; name=$(head -c 200 /dev/zero | tr "\\0" n); for i in $(seq 1 6000); do : > $name$i; done; : > end')
events, cursor, overflow = [], 0, False
while not any(e.relative_path == 'end' for e in events[-300:]):
    answer = poll(id, cursor=cursor, limit=1000, timeout=20)
    if not answer.events and not answer.overflow:
        break
    events += answer.events
    overflow |= answer.overflow
    cursor = answer.cursor
check('a flood: the last of it is there', any(e.relative_path == 'end' for e in events[-300:]))
check('the cursor is behind all', poll(id, cursor=cursor).events, [])
answer = poll(id, cursor=0, limit=1)
check('and who begins anew is told of what is kept no more', (answer.overflow, len(answer.events)), (True, 1))
stop(id)
for member, value in (('debounce', 49), ('debounce', 5001), ('exclude', 'x'), ('path', '')):
    check(f'{member}={value!r} does not fit', refusal(aio.post, 'file/watch', **{'path': W, member: value})[0], 422)
check('watching nothing', refusal(watch, path='/none')[0], 404)
check('an empty list of what to leave out is none', watch(exclude=[]).status, 'running')
for name in range(40):
    sh(f'mkdir -p many/{name}') if name == 0 else None
sh('cd many; mkdir -p $(seq 1 40)')
results = [refusal(watch, path=f'/workspace/many/{i}')[0] for i in range(1, 41)]
check('only so many', (results[0], results[-1]), (200, 429))
check('the others have room', refusal(other.post, 'file/watch', path='/workspace')[0], 200)
for watcher in aio.get('file/watch'):
    stop(watcher.watcher_id)
check('room again', watch(path='/workspace/many/1').status, 'running')

# ---- ends ----

gone = watch(path='/workspace/many/2').watcher_id
sh('rmdir many/2')
events, cursor = until(gone, ('remove', '.'))
check('what was watched is gone', told(events), [('remove', '.')])
eventually(lambda: {w.watcher_id: w.status for w in aio.get('file/watch')}[gone] == 'stopped')
check('its watcher says so', {w.watcher_id: w.status for w in aio.get('file/watch')}[gone], 'stopped')
check('and polls come back at once', poll(gone, cursor=cursor, timeout=30).events, [])
status, _ = Http('http://localhost/v1/boxes/' + other_box, socket_path=socket_path).json('DELETE', '')
check('a box is deleted under its watcher', status, 204)
finish()
