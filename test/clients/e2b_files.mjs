// Files of a sandbox through npm's e2b, and raw exchanges for what the package cannot send. Prints a line per check.
// Called by test/front/e2b_files_test.sh with E2B_API_URL,
// E2B_SANDBOX_URL and E2B_API_KEY set; E2B_PACKAGE: another version of the package.
import { createHash } from 'node:crypto'
import { request } from 'node:http'
import { gzipSync } from 'node:zlib'
import { eventually } from '../mcp/report.mjs'

const { Sandbox, FileType, FilesystemEventType } = await import(process.env.E2B_PACKAGE ?? 'e2b')

const show = (value) => JSON.stringify(value, (key, v) => (v instanceof Error ? `${v.name}: ${v.message}` : v))
function is(what, got, wanted) {
  const fits = show(got) === show(wanted)
  console.log(fits ? `ok - ${what}` : `not ok - ${what}: got ${show(got)}, wanted ${show(wanted)}`)
}
async function throws(what, run, name, text = '') {
  let error
  try {
    await run()
  } catch (e) {
    error = e
  }
  const fits = error && error.name === name && error.message.includes(text)
  const got = error ? `${error.name}: ${error.message}` : 'no error'
  console.log(fits ? `ok - ${what}` : `not ok - ${what}: got ${got}, wanted ${name} ${text}`)
}

const base = process.env.E2B_SANDBOX_URL
const sandbox = await Sandbox.create({ timeoutMs: 300_000, envs: { ONE: '1' } })
const other = await Sandbox.create({ timeoutMs: 300_000 })
const files = sandbox.files
const token = sandbox.envdAccessToken
const headers = { 'e2b-sandbox-id': sandbox.sandboxId, 'e2b-sandbox-port': '49983', 'x-access-token': token }
const raw = (path, options = {}) => fetch(base + path, { ...options, headers: { ...headers, ...options.headers } })
const run = async (command, options) => (await sandbox.commands.run(command, options)).stdout.trim()
const rpc = async (method, message) => {
  const answer = await raw(`/filesystem.Filesystem/${method}`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(message),
  })
  return { status: answer.status, body: await answer.json() }
}

// ---- write and read ----
const bytes = new Uint8Array(70_000).map((_, i) => i * 7)
is('a text', await files.write('a.txt', 'hello'), { path: '/home/user/a.txt', name: 'a.txt', type: 'file' })
is('it is read', await files.read('a.txt'), 'hello')
is('by its whole path', await files.read('/home/user/a.txt'), 'hello')
is('from the home directory', await files.read('~/a.txt'), 'hello')
is('its owner', await run('stat -c "%U:%G %a" a.txt'), 'user:user 644')
await files.write('bytes', bytes.buffer)
is('bytes', Buffer.from(await files.read('bytes', { format: 'bytes' })).equals(Buffer.from(bytes)), true)
const blob = await files.read('bytes', { format: 'blob' })
is('a blob', [blob.size, Buffer.from(await blob.arrayBuffer()).equals(Buffer.from(bytes))], [bytes.length, true])
const pieces = []
for await (const piece of await files.read('bytes', { format: 'stream' })) pieces.push(Buffer.from(piece))
is('a stream', Buffer.concat(pieces).equals(Buffer.from(bytes)), true)
await files.write('blob', new Blob(['from a blob']))
is('a blob is written', await files.read('blob'), 'from a blob')
await files.write('stream', new Blob(['from a stream ', 'in two']).stream())
is('a stream is written', await files.read('stream'), 'from a stream in two')
for (const useOctetStream of [false, true])
  for (const gzip of [false, true]) {
    const name = `d/${useOctetStream}-${gzip}.txt`
    await files.write(name, 'x'.repeat(100_000), { useOctetStream, gzip })
    is(`octet ${useOctetStream}, gzip ${gzip}`, (await files.read(name)).length, 100_000)
    is(`read packed, ${name}`, (await files.read(name, { gzip: true })).length, 100_000)
  }
await files.write('empty', '')
is('an empty file', await files.read('empty'), '')
is('an empty file as bytes', (await files.read('empty', { format: 'bytes' })).length, 0)
is('no files', await files.write([]), [])
const many = await files.write([
  { path: 'many/1', data: 'one' }, { path: '/tmp/many 2', data: new Blob(['two']) },
  { path: 'many/ü "3"', data: bytes.buffer },
])
is('many files, in their order', many.map((f) => f.path), ['/home/user/many/1', '/tmp/many 2', '/home/user/many/ü "3"'])
is('they are there', [await files.read('many/1'), await files.read('/tmp/many 2')], ['one', 'two'])
is('with its odd name', (await files.read('many/ü "3"', { format: 'bytes' })).length, bytes.length)
const hundred = Array.from({ length: 300 }, (_, i) => ({ path: `hundreds/${i}`, data: `content ${i}` }))
is('three hundred files', (await files.write(hundred)).length, 300)
is('the last of them', await files.read('hundreds/299'), 'content 299')

// ---- rights ----
await files.write('/0/x.txt', 'only root can')
is('where only root can write', await run('stat -c "%U %a" /0 /0/x.txt'), 'user 755\nuser 644')
await files.write('/root/y.txt', 'in the home of root', { user: 'root' })
is('as root', await run('stat -c %U /root/y.txt', { user: 'root' }), 'root')
await files.write('z.txt', 'relative to the home of root', { user: 'root' })
is('root has a home of its own', await files.read('/root/z.txt'), 'relative to the home of root')
await run('chmod 600 /root/y.txt', { user: 'root' })
is('what only root can read', await files.read('/root/y.txt'), 'in the home of root')
await run('chmod 755 a.txt')
await files.write('a.txt', 'written again')
is('a mode is kept', await run('stat -c "%a %U" a.txt'), '755 user')
await throws('another user', () => files.read('a.txt', { user: 'nobody' }), 'AuthenticationError', 'nobody')

// ---- failures ----
await throws('nothing there', () => files.read('missing'), 'FileNotFoundError', "path '/home/user/missing' does not exist")
await throws('a directory is read', () => files.read('many'), 'InvalidArgumentError', "path '/home/user/many' is a directory")
await throws('a directory is written', () => files.write('many', 'x'), 'InvalidArgumentError', 'directory')
await throws("somebody's home", () => files.read('~nobody/x'), 'InvalidArgumentError', '~nobody')

// ---- info and lists ----
const info = await files.getInfo('a.txt')
is('what it is', { ...info, modifiedTime: info.modifiedTime instanceof Date }, {
  name: 'a.txt', type: FileType.FILE, path: '/home/user/a.txt', size: 13, mode: 0o755, permissions: '-rwxr-xr-x',
  owner: 'user', group: 'user', modifiedTime: true,
})
is('a directory', (await files.getInfo('/tmp')).permissions, 'dtrwxrwxrwx')
await run('mkdir -p l; echo 12345 > l/file; ln -s file l/link; ln -s ../l l/dir; ln -s nowhere l/broken; mkfifo l/fifo')
const link = await files.getInfo('l/link')
is('a link', [link.type, link.symlinkTarget, link.mode, link.size, link.permissions],
  [FileType.FILE, '/home/user/l/file', 0o644, 4, 'Lrwxrwxrwx'])
await run('ln -s /root/y.txt l/hidden')
is('a link to what root alone sees', (await files.getInfo('l/hidden')).symlinkTarget, '/root/y.txt')
is('a link to a directory', (await files.getInfo('l/dir')).type, FileType.DIR)
const broken = await rpc('Stat', { path: 'l/broken' })
is('a broken link', [broken.body.entry.type, broken.body.entry.symlinkTarget, broken.body.entry.mode],
  ['FILE_TYPE_UNSPECIFIED', '/home/user/l/broken', 0])
is('a FIFO', (await rpc('Stat', { path: 'l/fifo' })).body.entry.permissions, 'prw-r--r--')
is('exists', [await files.exists('a.txt'), await files.exists('missing'), await files.exists('a.txt/x')], [true, false, false])
await throws('no info', () => files.getInfo('missing'), 'FileNotFoundError')
await run('mkdir -p t/b/c t/b-a t/a; touch t/b/c/z t/b/y t/b-a/x t/a/w t/B t/c')
const names = async (depth) => (await files.list('t', { depth })).map((e) => e.path.slice('/home/user/t/'.length))
is('a list', await names(1), ['B', 'a', 'b', 'b-a', 'c'])
is('two levels', await names(2), ['B', 'a', 'a/w', 'b', 'b/c', 'b/y', 'b-a', 'b-a/x', 'c'])
is('all levels', (await names(1000)).join(' '), 'B a a/w b b/c b/c/z b/y b-a b-a/x c')
is('a list through a link', (await files.list('l/dir')).map((e) => e.path).slice(0, 2),
  ['/home/user/l/dir/dir', '/home/user/l/dir/file'])
await throws('a list of nothing', () => files.list('missing'), 'FileNotFoundError')
await throws('a list of a file', () => files.list('a.txt'), 'InvalidArgumentError')
await throws('no depth', () => files.list('t', { depth: 0 }), 'InvalidArgumentError')
await run('ln -s l1 l2; ln -s l2 l1')
is('a loop', (await rpc('ListDir', { path: 'l1' })).body.code, 'failed_precondition')
is('what root alone sees', (await files.list('/root')).some((e) => e.name === 'y.txt' && e.owner === 'root'), true)

// ---- directories, moves, removals ----
is('a directory is made', await files.makeDir('m/n/o'), true)
is('and was there', await files.makeDir('m/n/o'), false)
is('they are the user\'s', await run('stat -c "%U %a" m m/n /home/user/m/n/o'), 'user 755\nuser 755\nuser 755')
await throws('over a file', () => files.makeDir('a.txt'), 'InvalidArgumentError')
is('a directory below /', [await files.makeDir('/made/here'), await run('stat -c %U /made/here')], [true, 'user'])
const moved = await files.rename('many/1', 'new/place/1')
is('a rename makes directories', [moved.path, await files.read('new/place/1')], ['/home/user/new/place/1', 'one'])
is('and takes the old name away', await files.exists('many/1'), false)
await throws('a rename of nothing', () => files.rename('missing', 'x'), 'FileNotFoundError')
is('which makes no directory', (await rpc('Move', { source: 'missing', destination: 'un/made' })).status, 404)
is('none at all', await files.exists('un'), false)
await files.write('target', 'old')
await files.rename('new/place/1', 'target')
is('a rename replaces', await files.read('target'), 'one')
await files.rename('/home/user/m', '/dev/shm/m')
is('to another file system', (await files.list('/dev/shm', { depth: 3 })).map((e) => `${e.name} ${e.owner}`),
  ['m user', 'n user', 'o user'])
await files.remove('hundreds')
is('a tree is removed', await files.exists('hundreds'), false)
await files.remove('hundreds')
await files.remove('/0')
is('one of root\'s places', await files.exists('/0'), false)

// ---- metadata ----
const tagged = await files.write('tagged', 'x', { metadata: { author: 'mish', Purpose: 'a test' } })
is('metadata', tagged.metadata, { author: 'mish', purpose: 'a test' })
is('it is kept', Object.entries((await files.getInfo('tagged')).metadata).sort(), [['author', 'mish'], ['purpose', 'a test']])
is('as attributes', await run('python3 -c \'import os; print(sorted(os.listxattr("tagged")))\''),
  "['user.e2b.author', 'user.e2b.purpose']")
is('in lists', (await files.list('/home/user')).find((e) => e.name === 'tagged').metadata.author, 'mish')
await run('python3 -c \'import os; os.setxattr("tagged", "user.own", b"1")\'')
await files.write('tagged', 'y', { metadata: { other: '1' } })
is('an upload replaces it', (await files.getInfo('tagged')).metadata, { other: '1' })
await files.write('tagged', 'z')
is('or clears it', (await files.getInfo('tagged')).metadata, undefined)
is('and leaves the attributes of others', await run('python3 -c \'import os; print(os.listxattr("tagged"))\''), "['user.own']")
const pair = await files.write([{ path: 'p1', data: '1' }, { path: 'p2', data: '2' }], { metadata: { both: 'yes' } })
is('of every file', pair.map((f) => f.metadata), [{ both: 'yes' }, { both: 'yes' }])
const refused = await raw('/files?path=q', {
  method: 'POST', body: 'x', headers: { 'content-type': 'application/octet-stream', 'x-metadata-big': 'v'.repeat(4100) },
})
is('too much of it', refused.status, 400)

// ---- watching ----
async function watching(path, options, act, wanted) {
  const seen = []
  let done
  const all = new Promise((resolve) => (done = resolve))
  const handle = await files.watchDir(path, (event) => {
    seen.push(event)
    if (wanted.every(([type, name]) => seen.some((e) => e.type === type && e.name === name))) done(true)
  }, options)
  await act()
  const late = new Promise((resolve) => setTimeout(resolve, 20_000, false).unref())
  is(`watching ${path}: ${show(wanted)}`, (await Promise.race([all, late])) || seen, true)
  await handle.stop()
  return seen
}
const { CREATE, WRITE, REMOVE, RENAME, CHMOD } = FilesystemEventType
await files.makeDir('w')
await files.write('w/there', '1')
const once = await watching('w', {}, () => files.write('w/there', '2'), [[WRITE, 'there']])
is('and nothing else', once.map((e) => `${e.type} ${e.name}`), ['write there'])
await watching('w', {}, () => files.write('w/fresh', '1'), [[CREATE, 'fresh'], [WRITE, 'fresh']])
await watching('w', {}, () => files.rename('w/fresh', 'w/moved'), [[RENAME, 'fresh'], [CREATE, 'moved']])
await watching('w', {}, () => run('chmod 600 w/moved'), [[CHMOD, 'moved']])
await watching('w', {}, () => files.rename('w/moved', 'outside'), [[RENAME, 'moved']])
await watching('w', {}, () => files.rename('outside', 'w/moved'), [[CREATE, 'moved']])
await watching('/root', {}, () => files.write('/root/seen', '1'), [[CREATE, 'seen']])
await watching('w', {}, () => files.remove('w/moved'), [[REMOVE, 'moved']])
await watching('w', { recursive: true }, async () => {
  await files.makeDir('w/deep/er')
  await files.write('w/deep/er/file', 'x')
}, [[CREATE, 'deep'], [CREATE, 'deep/er'], [WRITE, 'deep/er/file']])
const withEntry = await watching('w', { includeEntry: true }, () => files.write('w/there', '12345'), [[WRITE, 'there']])
is('with what it is', withEntry.find((e) => e.type === WRITE)?.entry?.path, '/home/user/w/there')
await throws('nothing to watch', () => files.watchDir('missing', () => {}), 'FileNotFoundError')
await throws('a file to watch', () => files.watchDir('a.txt', () => {}), 'InvalidArgumentError')

const ended = (options, act) => new Promise((resolve) => {
  setTimeout(resolve, 20_000, 'nothing').unref()
  sandbox.files.watchDir('w', () => {}, { ...options, onExit: (error) => resolve(error?.name) }).then(act)
})
is('a watch has a time-out', await ended({ timeoutMs: 300 }, () => {}), 'TimeoutError')

const watcher = await rpc('CreateWatcher', { path: '/home/user/w' })
const id = { watcherId: watcher.body.watcherId }
await files.write('w/polled', 'x')
let events = []
for (let i = 0; i < 200 && events.length < 2; i++)
  events = events.concat((await rpc('GetWatcherEvents', id)).body.events ?? [])
is('a watcher that is polled', events.map((e) => `${e.name} ${e.type}`),
  ['polled EVENT_TYPE_CREATE', 'polled EVENT_TYPE_WRITE'])
is('they are taken out', (await rpc('GetWatcherEvents', id)).body.events, [])
is('of this sandbox alone', (await (await fetch(base + '/filesystem.Filesystem/GetWatcherEvents', {
  method: 'POST', body: JSON.stringify(id), headers: {
    ...headers, 'e2b-sandbox-id': other.sandboxId, 'x-access-token': other.envdAccessToken,
    'content-type': 'application/json',
  },
})).json()).code, 'not_found')
is('it is ended', (await rpc('RemoveWatcher', id)).status, 200)
is('and gone', [(await rpc('RemoveWatcher', id)).body.code, (await rpc('GetWatcherEvents', id)).status], ['not_found', 404])

// ---- signed URLs ----
const form = (content, name = 'up.txt') => {
  const data = new FormData()
  data.append('file', new Blob([content]), name)
  return data
}
const down = await sandbox.downloadUrl('a.txt')
is('a signed download', await (await fetch(down)).text(), 'written again')
const soon = await sandbox.downloadUrl('a.txt', { useSignatureExpiration: 60 })
is('with an expiration', await (await fetch(soon)).text(), 'written again')
const up = await sandbox.uploadUrl('signed.txt', { useSignatureExpiration: 60 })
is('a signed upload', (await fetch(up, { method: 'POST', body: form('signed') })).status, 200)
is('it is there', await files.read('signed.txt'), 'signed')
const anywhere = await sandbox.uploadUrl(undefined, { user: 'user' })
is('without a path', (await fetch(anywhere, { method: 'POST', body: form('named', 'by/name.txt') })).status, 200)
is('by its own name', await files.read('by/name.txt'), 'named')
is('a download is no upload: nothing names a sandbox then', (await fetch(down, { method: 'POST', body: form('x') })).status, 404)
const sign = (path, op, user, secret, expires) =>
  'v1_' + createHash('sha256').update([path, op, user, secret, ...(expires ? [expires] : [])].join(':'))
    .digest('base64').replace(/=+$/, '')
is('a vector', sign('hello.txt', 'read', 'user', '0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0'),
  'v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E')
is('a vector with an expiration', sign('/home/user/a b.txt', 'write', '', 'tok', 1800000000),
  'v1_NCYDNsA/WL2jf6r+YGiFENfB0TRqoVfVeO2TBsrZWqg')
const signed = async (query, plain = {}) => {
  const answer = await fetch(`${base}/files?${new URLSearchParams(query)}`, {
    headers: { 'e2b-sandbox-id': sandbox.sandboxId, 'e2b-sandbox-port': '49983', ...plain },
  })
  return [answer.status, answer.status === 200 ? await answer.text() : (await answer.json()).message]
}
const past = 1_600_000_000
is('a signature by hand', await signed({ path: 'a.txt', signature: sign('a.txt', 'read', '', token) }), [200, 'written again'])
is('an old one', await signed({
  path: 'a.txt', signature: sign('a.txt', 'read', '', token, past), signature_expiration: past,
}), [401, 'signature is already expired'])
const old = new URLSearchParams({ path: 'a.txt', signature: sign('a.txt', 'read', '', token, past), signature_expiration: past })
const expired = await fetch(`${base}/files?${old}`)
is('an old URL', [expired.status, await expired.json()], [401, { code: 401, message: 'signature is already expired' }])
is('of another path', await signed({ path: 'p1', signature: sign('a.txt', 'read', '', token) }), [401, 'invalid signature'])
is('of another sandbox', await signed({ path: 'a.txt', signature: sign('a.txt', 'read', '', other.envdAccessToken) }),
  [401, 'invalid signature'])
is('none', await signed({ path: 'a.txt' }), [401, 'missing signature query parameter'])
is('a token that is wrong', await signed({ path: 'a.txt', signature: sign('a.txt', 'read', '', token) },
  { 'x-access-token': 'wrong' }), [401, 'access token present in header but does not match'])

// A page of another site, on the sandbox's own host.
const asPage = (host) => new Promise((resolve) => {
  const query = new URLSearchParams({ path: 'a.txt', signature: sign('a.txt', 'read', '', token) })
  request(`${base}/files?${query}`, { headers: { host, origin: 'https://elsewhere.test' } }, (answer) => {
    answer.resume()
    resolve([answer.statusCode, answer.headers['access-control-allow-origin']])
  }).end()
})
const domain = process.env.TEST_DOMAIN
if (domain) is('a page may use it', await asPage(`49983-${sandbox.sandboxId}.${domain}`), [200, '*'])
is('not on a host of the daemon itself', await asPage(new URL(base).host), [403, undefined])

// ---- what the package cannot send ----
const twice = form('1', 'same')
twice.append('file', new Blob(['2']), './same')
is('one path twice', (await raw('/files', { method: 'POST', body: twice })).status, 400)
const none = new FormData()
none.append('else', 'x')
is('no file', (await raw('/files?path=x', { method: 'POST', body: none })).status, 400)
const octets = (path, body, more = {}) =>
  raw(path, { method: 'POST', body, headers: { 'content-type': 'application/octet-stream', ...more } })
is('octets without a path', (await octets('/files', 'x')).status, 400)
is('another type', (await raw('/files?path=x', { method: 'POST', body: 'x' })).status, 400)
is('another encoding', (await octets('/files?path=x', 'x', { 'content-encoding': 'br' })).status, 400)
is('not gzip', (await octets('/files?path=nogzip', 'plain', { 'content-encoding': 'gzip' })).status, 400)
is('gzip that is cut', (await octets('/files?path=nogzip', gzipSync('x'.repeat(1000)).subarray(0, 20),
  { 'content-encoding': 'gzip' })).status, 400)
is('which leave nothing', await files.exists('nogzip'), false)
const bomb = gzipSync(Buffer.alloc(40 << 20))
is('a small bomb is a file', (await octets('/files?path=bomb', bomb, { 'content-encoding': 'gzip' })).status, 200)
is('of its whole size', (await files.getInfo('bomb')).size, 40 << 20)
const limit = Number(process.env.UPLOAD_LIMIT ?? 0)
if (limit) {
  const large = gzipSync(Buffer.alloc(limit + 1))
  is('a bomb meets the limit', (await octets('/files?path=large', large, { 'content-encoding': 'gzip' })).status, 413)
  is('and leaves nothing', await files.exists('large'), false)
}
const broke = raw('/files?path=half', {
  method: 'POST', duplex: 'half', headers: { 'content-type': 'application/octet-stream' },
  body: new ReadableStream({
    start(controller) { controller.enqueue(new Uint8Array(300_000)) },
    pull(controller) { controller.error(new Error('enough')) },
  }),
})
is('half an upload', await broke.then((r) => r.status, () => 'cut'), 'cut')
is('is no file', await files.exists('half'), false)
let hidden // what a cut upload had begun goes when the server has seen the cut
await eventually(60, async () => (hidden = await run('ls -A /home/user | grep -c cubby-tmp || true')) === '0')
is('nothing hidden is left', hidden, '0')
const ranged = await raw('/files?path=a.txt', { headers: { range: 'bytes=8-12' } })
is('a range', [ranged.status, await ranged.text()], [206, 'again'])
const empty = await raw('/files?path=empty')
is('an empty file has a length', [empty.status, empty.headers.get('content-length')], [200, '0'])
await files.write('p1', bytes.buffer)
const composed = await raw('/files/compose', {
  method: 'POST', headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ source_paths: ['p1', '/home/user/p2'], destination: 'both' }),
})
is('files composed', [composed.status, await composed.json(), (await files.getInfo('both')).size],
  [200, { path: '/home/user/both', name: 'both', type: 'file' }, bytes.length + 1])
is('in their order', (await files.read('both', { format: 'bytes' })).subarray(-2).join(' '), `${bytes.at(-1)} 50`)
is('their sources are gone', [await files.exists('p1'), await files.exists('p2')], [false, false])
const itself = await raw('/files/compose', {
  method: 'POST', headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ source_paths: ['both', 'a.txt'], destination: '/home/user/./both' }),
})
is('not into one of them', [itself.status, await files.exists('both')], [400, true])

// ---- what boxes make of their files ----
await files.write('odd/x', '1', { metadata: { good: 'yes' } })
await run(`python3 - << 'END'
import os
os.chdir('odd')
os.setxattr('x', 'user.e2b.bytes', b'\\xff\\xfe')
os.setxattr('x', 'user.e2b.nul', b'a\\0b')
open(b'\\xff\\xfe', 'w')
open('new\\nline', 'w')
os.symlink('/proc/1/root/etc/passwd', 'magic')
END`)
is('attributes that are no text', (await files.getInfo('odd/x')).metadata, { good: 'yes' })
is('names that are no text', (await files.list('odd')).map((e) => e.name), ['new\nline', 'x', '\ufffd\ufffd'])
await throws('links of /proc lead nowhere', () => files.read('odd/magic'), 'InvalidArgumentError')
const handles = []
await throws('watches have a bound', async () => {
  for (let i = 0; i < 65; i++) handles.push(await files.watchDir('odd', () => {}))
}, 'RateLimitError', '64 watches')
is('and other work goes on', await files.read((await files.write('odd/y', 'goes on')).path), 'goes on')
await Promise.all(handles.map((handle) => handle.stop()))
// A watch that was left counts until the server has seen it.
await eventually(60, () => files.watchDir('odd', () => {}).then((one) => one.stop().then(() => true), () => false))
const metrics = await (await raw('/metrics')).json()
is('metrics', Object.keys(metrics), ['ts', 'cpu_count', 'cpu_used_pct', 'mem_total', 'mem_used', 'mem_cache',
  'mem_total_mib', 'mem_used_mib', 'disk_used', 'disk_total'])
is('variables', await (await raw('/envs')).json(), { ONE: '1' })
is('health', (await raw('/health', { headers: { 'x-access-token': '' } })).status, 204)
is('without a token', (await raw('/envs', { headers: { 'x-access-token': 'wrong' } })).status, 401)

const killed = ended({}, () => sandbox.kill())
is('a watch ends with its sandbox', await killed !== 'nothing', true)
await other.kill()
is('afterwards', (await raw('/files?path=a.txt')).status, 502)
process.exit(0)
