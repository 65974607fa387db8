"""The checks of aio_search_test.sh. Arguments: the daemon's socket, a box."""
import json, sys
from aio import Aio, Failure, Http, check, finish, matches, refusal

socket_path, box = sys.argv[1:3]
aio = Aio('http://localhost/aio/' + box, socket_path=socket_path)
native = Http('http://localhost/v1/boxes/' + box, socket_path=socket_path)
S = '/workspace/s/'


def sh(command):
    status, value = native.json('POST', '/exec', {'command': command})
    check('prepared: ' + command[:40], (status, value.get('exit_code'), value.get('stderr')), (200, 0, ''))


def grep(pattern, path=S, **more):
    return aio.post('file/grep', path=path, pattern=pattern, **more)


def lines(answer):
    return [f'{match.file.removeprefix(S)}:{match.line_number}:{match.line_content}' for match in answer.matches]


def found(*arguments, **more):
    return lines(grep(*arguments, **more))


def files(*arguments, **more):
    return sorted({match.file.removeprefix(S) for match in grep(*arguments, **more).matches})


def glob(pattern, path=S, **more):
    return aio.post('file/glob', path=path, pattern=pattern, **more)


def paths(*arguments, **more):
    return [file.path.removeprefix(S) for file in glob(*arguments, **more).files]


def why(call, *arguments, **more):
    """status and whole body of a refusal"""
    try:
        return 200, call(*arguments, **more)
    except Failure as failure:
        return failure.status, failure.body


sh('mkdir -p s/src/deep s/node_modules/dep s/.git s/docs; cd s; '
   'printf "import os\\nneedle = 1\\n\\nprint(needle)\\nlast\\n" > src/a.py; printf "needle one\\nNEEDLE two\\n" > src/deep/b.py; '
   'echo "const needle = 2" > src/c.js; echo "needle in a dependency" > node_modules/dep/i.js; echo needle > .git/config; '
   'printf "# needle\\r\\ntext\\r\\n" > docs/r.md; echo needle > top.txt; printf "needle\\0binary" > bin.dat; '
   'printf "begin\\n  middle one\\nend\\nbetween\\nbegin\\nend" > block.txt; mkdir empty')

# ---- grep ----

answer = grep('needle', path='/workspace/s', max_results=100)
check('all of it', sorted(lines(answer)), sorted([
    'src/a.py:2:needle = 1', 'src/a.py:4:print(needle)', 'src/deep/b.py:1:needle one', 'src/c.js:1:const needle = 2',
    'node_modules/dep/i.js:1:needle in a dependency', '.git/config:1:needle', 'docs/r.md:1:# needle', 'top.txt:1:needle']))
check('what was asked for is said', (answer.path, answer.pattern), ('/workspace/s', 'needle'))
check('counts', (answer.match_count, answer.files_matched, answer.files_searched, answer.truncated), (8, 7, 8, False))
check('no context unless asked for', (answer.matches[0].context_before, answer.matches[0].context_after), (None, None))
check('the same without a slash at the end of the path', lines(grep('needle')), lines(answer))
check('one file as path', found('needle', S + 'src/a.py'), ['src/a.py:2:needle = 1', 'src/a.py:4:print(needle)'])
check('as the seven tools ask', found('NEEDLE', case_insensitive=True, fixed_strings=False, max_results=400, max_file_size='1M',
                                      recursive=True, path='/workspace/s/src/deep'),
      ['src/deep/b.py:1:needle one', 'src/deep/b.py:2:NEEDLE two'])
check('case counts', found('NEEDLE'), ['src/deep/b.py:2:NEEDLE two'])
check('a text that is no expression', found('print(', fixed_strings=True), ['src/a.py:4:print(needle)'])
check('null is as nothing', found('NEEDLE', case_insensitive=None, max_results=None, include=None, type=None), ['src/deep/b.py:2:NEEDLE two'])
check('members that nobody knows', found('NEEDLE', colour='red'), ['src/deep/b.py:2:NEEDLE two'])
check('files to include', files('needle', include=['*.py', '*.md']), ['docs/r.md', 'src/a.py', 'src/deep/b.py'])
check('by path', files('needle', include=['src/*.py']), ['src/a.py'])
check('by path at any depth', files('needle', include=['**/deep/*']), ['src/deep/b.py'])
check('alternatives', files('needle', include=['*.{js,txt}']), ['node_modules/dep/i.js', 'src/c.js', 'top.txt'])
check('files to leave out', files('needle', exclude=['*.py', 'node_modules', '.git/', 'docs/**']), ['src/c.js', 'top.txt'])
check('by path, too', files('needle', exclude=['src/deep', '/src/a.py']), ['.git/config', 'docs/r.md', 'node_modules/dep/i.js', 'src/c.js', 'top.txt'])
check('both', files('needle', include=['*.js'], exclude=['node_modules']), ['src/c.js'])
check('one file is judged by its name', (files('needle', S + 'src/a.py', include=['*.js']), files('needle', S + 'src/a.py', include=['*.py'])),
      ([], ['src/a.py']))
check('a type', files('needle', type='py'), ['src/a.py', 'src/deep/b.py'])
check('a type and names', files('needle', type='py', include=['a*']), ['src/a.py'])
check('not below', files('needle', recursive=False), ['top.txt'])
answer = grep('print', include=['a.py'], context_before=2, context_after=5)
check('context, each its own', [(m.line_number, m.context_before, m.context_after) for m in answer.matches], [(4, ['needle = 1', ''], ['last'])])
check('context of one side', [(m.context_before, m.context_after) for m in grep('import', include=['a.py'], context_after=1).matches],
      [(None, ['needle = 1'])])
check('none before the first line', grep('import', include=['a.py'], context_before=1).matches[0].context_before, [])
answer = grep('needle', max_results=3)
check('the most results', (len(answer.matches), answer.match_count, answer.truncated), (3, 3, True))
everything = lines(grep('needle'))
check('an offset', lines(grep('needle', offset=3, max_results=2)), everything[3:5])
check('page by page it is all', lines(grep('needle', max_results=5)) + lines(grep('needle', max_results=5, offset=5)), everything)
check('an offset beyond', (lines(grep('needle', offset=10 ** 12)), grep('needle', offset=10 ** 12).truncated), ([], False))
check('exactly as many as there are is not truncated', grep('needle', max_results=8).truncated, False)
answer = grep('begin.*?end', path=S + 'block.txt', multiline=True)
check('over several lines', [(m.line_number, m.line_content) for m in answer.matches], [(1, 'begin\n  middle one\nend'), (5, 'begin\nend')])
check('and not without', found('begin.*end', S + 'block.txt'), [])
check('a text over lines', found('end\nbetween', S + 'block.txt', multiline=True, fixed_strings=True), ['block.txt:3:end\nbetween'])
check('lines of a multiline match with context', [(m.context_before, m.context_after) for m in
      grep('one\nend', S + 'block.txt', multiline=True, context_before=1, context_after=1).matches], [(['begin'], ['between'])])
sh('cd s; head -c 1048577 /dev/zero | tr "\\0" x > big.txt; echo needle >> big.txt')
check('large files are left out', 'big.txt' in files('needle'), False)
check('unless wanted', files('needle', include=['big*'], max_file_size='2M'), ['big.txt'])
check('sizes have units', [files('needle', include=['big*'], max_file_size=size) for size in ('1100K', '1g', '1048577', '1048584')],
      [['big.txt'], ['big.txt'], [], ['big.txt']])
sh(r'''cd s; printf 'bad \377 needle\n' > latin.txt; printf 'x' > "$(printf 'n\377needle')"; rm big.txt''')
check('bytes that are no text', found('bad', S + 'latin.txt'), ['latin.txt:1:bad \ufffd needle'])
check('nothing there', (grep('nothing at all of it').matches, grep('x', path=S + 'empty').files_searched), ([], 0))

status, body = why(grep, 'x', path='/none')
check('no such directory', (status, body['data']['error_type'], body['data']['errno']), (404, 'not_found', 2))
matches('in words', body['message'], r"^Failed to grep files: .*'/none'")
status, body = why(grep, 'a(')
check('a bad expression', (status, body['success']), (400, False))
matches('says why', body['message'], 'pattern')
check('a link out of the box leads to what the box has', refusal(grep, 'x', path='/proc/1/root/etc')[0] in (200, 400, 403, 404), True)
for member, value in (('max_results', 0), ('max_results', 10001), ('context_before', 21), ('context_after', -1), ('offset', -1),
                      ('max_file_size', '1X'), ('max_file_size', ''), ('max_file_size', '99999999999999999999G'), ('type', 'cobol77'),
                      ('include', '*.py'), ('pattern', ''), ('path', '')):
    status, body = why(aio.post, 'file/grep', **{'path': S, 'pattern': 'x', member: value})
    check(f'{member}={value!r:.20} does not fit', (status, [row['loc'] for row in body.get('detail', [])]), (422, [['body', member]]))
status, body = why(aio.post, 'file/grep', path=S)
check('without a pattern', (status, [row['loc'][-1] for row in body['detail']]), (422, ['pattern']))
check('a pattern of stars without end', refusal(grep, 'x', include=['*a' * 2000])[0] in (200, 400), True)
check('too many patterns', refusal(grep, 'x', include=['*.x'] * 65)[0], 422)

# ---- glob ----

answer = glob('**/*.py')
check('paths and names', [(f.path, f.name, f.is_directory) for f in answer.files],
      [(S + 'src/a.py', 'a.py', False), (S + 'src/deep/b.py', 'b.py', False)])
check('what they are', [(f.size, bool(f.modified_time)) for f in answer.files], [(41, True), (22, True)])
matches('a time', answer.files[0].modified_time, r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d')
check('counts of a glob', (answer.total_count, answer.truncated, answer.path, answer.pattern), (2, False, S, '**/*.py'))
check('without metadata', [(f.size, f.modified_time) for f in glob('*.txt', include_metadata=False).files][:1], [(None, None)])
check('one level', paths('*.txt'), ['block.txt', 'latin.txt', 'top.txt'])
check('hidden ones are left out', [p for p in paths('**') if p.startswith('.')], [])
check('a dot that is said', paths('.git/*'), ['.git/config'])
check('or all of them', paths('**/config', include_hidden=True), ['.git/config'])
check('directories too', paths('*', files_only=False, exclude=['*.txt', '*.dat', 'n?needle']), ['docs', 'empty', 'node_modules', 'src'])
check('are told as such', [f.is_directory for f in glob('src', files_only=False).files], [True])
check('left out', paths('**/*.js', exclude=['node_modules']), ['src/c.js'])
check('in the order of paths', paths('**/*.{py,js,md}'), ['docs/r.md', 'node_modules/dep/i.js', 'src/a.py', 'src/c.js', 'src/deep/b.py'])
check('the other way round', paths('**/*.{py,js,md}', sort_desc=True)[:2], ['src/deep/b.py', 'src/c.js'])
check('by name', paths('**/*.{py,js,md}', sort_by='name'), ['src/a.py', 'src/deep/b.py', 'src/c.js', 'node_modules/dep/i.js', 'docs/r.md'])
check('by size', paths('**/*.{py,js}', sort_by='size'), ['src/c.js', 'src/deep/b.py', 'node_modules/dep/i.js', 'src/a.py'])
sh('cd s; touch -d 2001-01-01 src/c.js; touch -d 2030-01-01 docs/r.md')
check('by time', [paths('**/*.{py,js,md}', sort_by='modified')[0], paths('**/*.{py,js,md}', sort_by='modified', sort_desc=True)[0]],
      ['src/c.js', 'docs/r.md'])
answer = glob('**/*.{py,js,md}', sort_by='modified', sort_desc=True, max_results=1)
check('the first of an order, of all there are', ([f.name for f in answer.files], answer.total_count, answer.truncated), (['r.md'], 5, True))
check('a name that is no text', paths('n*needle'), ['n\ufffdneedle'])
check('a link is not followed', (sh('ln -s /etc s/out'), paths('out/*'))[1], [])
sh('mkdir s/many; cd s/many; seq 1 7000 | xargs touch')
answer = glob('*', path=S + 'many')
check('5000 unless more are wanted', (len(answer.files), answer.total_count, answer.truncated), (5000, 7000, True))
check('more are wanted', len(glob('*', path=S + 'many', max_results=50000).files), 7000)
status, body = why(glob, '*', path='/none')
check('glob of nothing', (status, body['data']['error_type'], body['data']['operation']), (404, 'not_found', 'glob'))
check('glob of a file', refusal(glob, '*', path=S + 'top.txt')[0], 400)
check('a pattern that goes up', refusal(glob, '../*')[0], 400)
for member, value in (('max_results', 0), ('max_results', 50001), ('sort_by', 'colour'), ('exclude', '*')):
    status, body = why(aio.post, 'file/glob', **{'path': S, 'pattern': '*', member: value})
    check(f'glob: {member}={value!r} does not fit', (status, [row['loc'][-1] for row in body.get('detail', [])]), (422, [member]))
finish()
