#!/usr/bin/env python3
"""Archives that hostile or merely odd people send. usage: zips.py DIRECTORY

Writes DIRECTORY/bad/NAME.zip with DIRECTORY/bad.tsv (NAME, code, what the refusal says: a part of it) and
DIRECTORY/good/NAME.zip with DIRECTORY/good.tsv (NAME, encoding, paths of the files in order, joined by '|'). Every bad one
would replace the skill `victim` if it were taken. Some come from real programs: zip, from files whose names are GBK, and 7z."""
import os, struct, subprocess, sys, tempfile, zlib

U = 0x800


class Entry:
    def __init__(self, name, data=b'x', **over):
        self.name = name if isinstance(name, bytes) else name.encode()
        self.data = data
        self.over = over  # fields: see build; c_ before: of the central directory alone, l_: of the local head alone

    def get(self, side, key, default):
        return self.over.get(side + '_' + key, self.over.get(key, default))


def fields(e, side, packed):
    g = lambda key, default: e.get(side, key, default)
    return (g('flags', U), g('method', 8), g('crc', zlib.crc32(e.data)), g('packed', len(packed)), g('size', len(e.data)),
            g('name', e.name), g('extra', b''))


def build(entries, comment=b'', **end):
    out, central = bytearray(end.get('prefix', b'')), bytearray()
    for e in entries:
        deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = e.data if e.get('c', 'method', 8) == 0 else deflater.compress(e.data) + deflater.flush()
        packed = e.over.get('raw', packed)
        flags, method, crc, n, size, name, extra = fields(e, 'l', packed)
        at = e.over.get('at', len(out))
        if 'at' not in e.over:
            out += struct.pack('<IHHHHHIIIHH', 0x04034b50, 20, flags, method, 0, 0x5c21, crc, n, size, len(name), len(extra))
            out += name + extra + packed
        flags, method, crc, n, size, name, extra = fields(e, 'c', packed)
        host, attributes = e.over.get('host', 3), e.over.get('mode', 0o100644) << 16 | e.over.get('dos', 0)
        central += struct.pack('<IHHHHHHIIIHHHHHII', 0x02014b50, host << 8 | 20, 20, flags, method, 0, 0x5c21, crc, n, size,
                               len(name), len(extra), 0, e.over.get('disk', 0), 0, attributes, e.over.get('offset', at))
        central += name + extra
    start, count = len(out), end.get('count', len(entries))
    out += central
    if 'end64' in end:
        record = dict(count=len(entries), size=len(central), start=start, length=44, at=len(out), disks=1)
        record.update(end['end64'])
        out += struct.pack('<IQHHIIQQQQ', 0x06064b50, record['length'], 45, 45, 0, 0, record['count'], record['count'],
                           record['size'], record['start'])
        out += struct.pack('<IIQI', 0x07064b50, 0, record['at'], record['disks'])
    out += struct.pack('<IHHHHIIH', 0x06054b50, end.get('disk', 0), 0, count, count, end.get('size', len(central)),
                       end.get('start', start), end.get('comment_len', len(comment))) + comment
    return bytes(out)


def victim(*more, **end):
    return build([Entry('victim/SKILL.md', b'replaced'), *more], **end)


def directory(name, **over):
    return Entry(name, b'', **{'mode': 0o40755, 'method': 0, **over})


def bomb(size):
    return b'\0' * size


def nested(levels):
    data = build([Entry('0', bomb(1 << 20))])
    for level in range(levels):
        data = build([Entry(f'{level}/{i}.zip', data) for i in range(5)])
    return data


def overlapping():
    """One entry's stored content is another entry, told of in the directory too."""
    inner = Entry('victim/inner', bomb(100000))
    quoted = build([inner])[:-(46 + len(inner.name)) - 22]
    outer = Entry('victim/outer', quoted, method=0)
    inner.over['at'] = 30 + len(outer.name)
    return build([outer, inner])


def unicode_path(name, other):
    return struct.pack('<HHBI', 0x7075, 5 + len(other), 1, zlib.crc32(name)) + other


def bad():
    yield 'slip', 'INVALID', '../x', victim(Entry('../x'))
    yield 'slip_deep', 'INVALID', 'victim/../../x', victim(Entry('victim/../../x'))
    yield 'slip_end', 'INVALID', 'victim/..', victim(directory('victim/..'))
    yield 'slip_inside', 'INVALID', 'victim/a/../b', victim(Entry('victim/a/../b'))
    yield 'slip_top', 'INVALID', "'..'", victim(Entry('..'))
    yield 'absolute', 'INVALID', "'/etc/passwd': its path is absolute", victim(Entry('/etc/passwd'))
    yield 'absolute_twice', 'INVALID', "'//host/x'", victim(Entry('//host/x'))
    yield 'drive', 'INVALID', "'C:\\x'", victim(Entry('C:\\x', host=0, mode=0))
    yield 'drive_slash', 'INVALID', "'C:/x': its path is absolute", victim(Entry('C:/x'))
    yield 'backslash_slip', 'INVALID', 'its path contains ".."', victim(Entry('a\\..\\..\\x', host=0, mode=0))
    yield 'backslash_slip_unix', 'INVALID', 'a backslash', victim(Entry('a\\..\\..\\x'))
    yield 'backslash_absolute', 'INVALID', 'absolute', victim(Entry('\\x', host=11, mode=0))
    yield 'nul', 'INVALID', 'victim/a\\x00.txt', victim(Entry(b'victim/a\0.txt'))
    yield 'nul_unicode', 'INVALID', 'a NUL', victim(Entry('victim/q', extra=unicode_path(b'victim/q', b'victim/\0')))
    yield 'slip_unicode', 'INVALID', '"..', victim(Entry('victim/q', extra=unicode_path(b'victim/q', b'victim/../../q')))
    yield 'control', 'INVALID', 'control character', victim(Entry('victim/a\nb'))
    yield 'escape', 'INVALID', '\\x1b[2J', victim(Entry('victim/a\x1b[2Jb'))
    yield 'empty_name', 'INVALID', 'has no name', victim(Entry(''))
    yield 'dot_name', 'INVALID', 'its name is empty', victim(Entry('./.'))
    yield 'long_name', 'INVALID', 'more than 255 bytes', victim(Entry('victim/' + 'n' * 256))
    yield 'long_path', 'INVALID', 'too long', victim(Entry('victim' + ('/' + 'n' * 200) * 16))
    yield 'link', 'INVALID', "'victim/link': it is a symbolic link", victim(Entry('victim/link', b'/etc/passwd', mode=0o120777))
    yield 'link_windows', 'INVALID', 'symbolic link', victim(Entry('victim/link', b'..', mode=0, dos=0x420, host=0))
    yield 'device', 'INVALID', "'victim/null': it is a device", victim(Entry('victim/null', b'', mode=0o20666))
    yield 'disk', 'INVALID', 'it is a device', victim(Entry('victim/sda', b'', mode=0o60666))
    yield 'fifo', 'INVALID', 'a pipe or a socket', victim(Entry('victim/fifo', b'', mode=0o10666))
    yield 'socket', 'INVALID', 'a pipe or a socket', victim(Entry('victim/s', b'', mode=0o140666))
    yield 'label', 'INVALID', 'a volume label', victim(Entry('victim/v', b'', mode=0, dos=8, host=0))
    yield 'encrypted', 'INVALID', "'victim/secret': it is encrypted", victim(Entry('victim/secret', flags=U | 1))
    yield 'encrypted_strong', 'INVALID', 'it is encrypted', victim(Entry('victim/secret', flags=U | 0x41))
    yield 'encrypted_aes', 'INVALID', 'it is encrypted', victim(Entry('victim/secret', method=99))
    yield 'method', 'INVALID', 'its compression method is not deflate', victim(Entry('victim/b', method=12))
    yield 'patch', 'INVALID', 'patched data', victim(Entry('victim/b', flags=U | 0x20))
    yield 'duplicate', 'INVALID', "'victim/SKILL.md' occurs twice", victim(Entry('victim/SKILL.md', b'other'))
    yield 'duplicate_dots', 'INVALID', 'occurs twice', victim(Entry('./victim//./SKILL.md', b'other'))
    yield 'duplicate_dir', 'INVALID', 'occurs twice', victim(directory('victim/d/'), directory('victim/d/'))
    yield 'case', 'INVALID', 'differs only by case', victim(Entry('victim/skill.md'))
    yield 'case_top', 'INVALID', 'differs only by case', victim(Entry('Victim/other'))
    yield 'case_dir', 'INVALID', 'differs only by case', victim(Entry('victim/Sub/a'), Entry('victim/sub/b'))
    yield 'case_greek', 'INVALID', 'differs only by case', victim(Entry('victim/ΣΑΣ'), Entry('victim/σας'))
    yield 'case_kelvin', 'INVALID', 'differs only by case', victim(Entry('victim/\u212a'), Entry('victim/k'))
    yield 'file_and_dir', 'INVALID', "is inside a file, 'victim/SKILL.md'", victim(Entry('victim/SKILL.md/x'))
    yield 'file_as_dir', 'INVALID', 'both a file and a directory', victim(Entry('victim/d/', b'content'))
    yield 'file_and_dir_same', 'INVALID', 'occurs twice', victim(Entry('victim/d'), directory('victim/d/'))
    yield 'bomb_ratio', 'TOO_LARGE', "'victim/zeros': it unpacks to far more", victim(Entry('victim/zeros', bomb(4 << 20)))
    yield 'bomb_many', 'TOO_LARGE', 'the archive unpacks to far more', victim(
        *[Entry(f'victim/{i}', bomb(900 << 10)) for i in range(30)])
    yield 'bomb_total', 'TOO_LARGE', 'unpacks to more than is allowed', victim(
        *[Entry(f'victim/{i}', b'', size=60 << 20, raw=bytes(400 << 10)) for i in range(5)])
    yield 'bomb_size', 'TOO_LARGE', 'it is too large', victim(Entry('victim/big', b'', size=0xfffffffe))
    yield 'bomb_overlap', 'INVALID', "'victim/inner': it shares bytes", overlapping()
    yield 'bomb_entries', 'TOO_LARGE', '', victim(*[directory(f'victim/{i}/') for i in range(10001)])
    yield 'bomb_directories', 'TOO_LARGE', 'files and directories', victim(
        *[Entry(f'victim/{i}' + '/d' * 28 + '/x') for i in range(400)])
    yield 'bomb_depth', 'TOO_LARGE', 'it is too deep in directories', victim(Entry('victim' + '/d' * 40))
    yield 'lies_less', 'INVALID', "'victim/liar': it unpacks to more", victim(Entry('victim/liar', b'y' * 5000, size=10))
    yield 'lies_more', 'INVALID', "'victim/liar': it unpacks to less", victim(Entry('victim/liar', b'y' * 10, size=5000))
    yield 'crc', 'INVALID', 'the CRC differs', victim(Entry('victim/f', b'abc', crc=1))
    yield 'damaged', 'INVALID', "'victim/f': its content is damaged", victim(Entry('victim/f', b'abc', raw=b'\xff\xff\xff\xff'))
    yield 'cut_content', 'INVALID', 'its content is cut off', victim(Entry('victim/f', b'abc' * 99, raw=b'\x4b'))
    yield 'behind_content', 'INVALID', 'data after the end of its content', victim(Entry('victim/f', b'', raw=b'\x03\0tail'))
    whole = victim(Entry('victim/more', os.urandom(3000)))
    yield 'truncated', 'INVALID', 'cut off', whole[:-10]
    yield 'truncated_half', 'INVALID', 'cut off', whole[:len(whole) // 2]
    yield 'headless', 'INVALID', '', whole[200:]
    yield 'trailing', 'INVALID', 'cut off', whole + b'garbage behind it'
    yield 'not_a_zip', 'INVALID', 'not a ZIP', b'#!/bin/sh\necho this is no archive, whatever its name says\n'
    yield 'tiny', 'INVALID', 'not a ZIP', b'PK'
    yield 'nothing', 'INVALID', 'not a ZIP', b''
    yield 'empty', 'INVALID', 'empty', build([])
    yield 'rar', 'INVALID', 'not a ZIP', b'Rar!\x1a\x07\x01\0' + bytes(100)
    yield 'zip64_count', 'INVALID', '', victim(count=0xffff, end64={'count': 5000})
    yield 'zip64_huge', 'TOO_LARGE', 'entries', victim(count=0xffff, end64={'count': 1 << 40})
    yield 'zip64_start', 'INVALID', '', victim(start=0xffffffff, end64={'start': 1 << 62})
    yield 'zip64_contradicts', 'INVALID', 'contradict', victim(end64={'count': 2})
    yield 'zip64_outside', 'INVALID', 'outside', victim(count=0xffff, end64={'at': 1 << 63})
    yield 'zip64_length', 'INVALID', 'contradict', victim(count=0xffff, end64={'length': 1 << 40})
    yield 'zip64_size', 'TOO_LARGE', '', victim(
        Entry('victim/w', b'x', size=0xffffffff, extra=struct.pack('<HHQ', 1, 8, 1 << 60)))
    yield 'zip64_missing', 'INVALID', 'extra fields', victim(Entry('victim/w', b'x', size=0xffffffff))
    yield 'zip64_short', 'INVALID', 'extra fields', victim(
        Entry('victim/w', b'x', size=0xffffffff, extra=struct.pack('<HHI', 1, 4, 1)))
    yield 'volumes', 'INVALID', 'several volumes', victim(disk=1)
    yield 'volumes_entry', 'INVALID', 'several volumes', victim(Entry('victim/b', disk=3))
    yield 'count_less', 'INVALID', 'more entries', victim(Entry('victim/b'), count=1)
    yield 'count_more', 'INVALID', '', victim(count=9)
    yield 'directory_elsewhere', 'INVALID', 'is not where', victim(start=5)
    yield 'prefix', 'INVALID', 'is not where', b'#!/bin/sh\nexit\n' + victim()
    yield 'comment_end', 'INVALID', '', victim(comment=build([Entry('ok/x')])[-22:])
    yield 'outside', 'INVALID', "'victim/o' is outside", victim(Entry('victim/o', offset=1 << 30))
    yield 'outside_content', 'INVALID', "'victim/o' is outside", victim(Entry('victim/o', packed=1 << 20, method=0, size=1 << 20))
    yield 'local_name', 'INVALID', 'and the head before its content differ', victim(Entry('victim/seen', l_name=b'../../hid'))
    yield 'local_size', 'INVALID', 'and the head before its content differ', victim(Entry('victim/b', b'abc', l_size=9))
    yield 'local_method', 'INVALID', 'and the head before its content differ', victim(Entry('victim/b', b'abc', l_method=0))
    yield 'local_flags', 'INVALID', 'and the head before its content differ', victim(Entry('victim/b', b'abc', l_flags=U | 1))
    yield 'local_crc', 'INVALID', 'and the head before its content differ', victim(Entry('victim/b', b'abc', l_crc=7))
    yield 'local_missing', 'INVALID', 'is outside', victim(Entry('victim/b', offset=3))
    yield 'stored_sizes', 'INVALID', 'two sizes differ', victim(Entry('victim/b', b'abc', method=0, size=2))
    yield 'neither', 'INVALID', 'neither UTF-8 nor GBK', victim(Entry(b'victim/\xff\xff', flags=0))
    yield 'said_utf8', 'INVALID', 'marked as UTF-8', victim(Entry('victim/天'.encode('gbk')))
    yield 'overlong', 'INVALID', 'marked as UTF-8', victim(Entry(b'victim/\xc0\xae\xc0\xae/x'))
    yield 'gbk_slip', 'INVALID', 'its path contains ".."', victim(Entry('victim/天/../../x'.encode('gbk'), flags=0))
    yield 'root_only', 'INVALID', 'No valid skill directory found.', build([Entry('SKILL.md'), Entry('main.py')])
    yield 'mac_only', 'INVALID', 'No valid skill directory found.', build([Entry('__MACOSX/victim/._x'), Entry('.DS_Store')])
    yield 'reserved', 'INVALID', "Skill name 'skill-creator' is reserved", victim(Entry('skill-creator/SKILL.md'))
    yield 'reserved_flattened', 'INVALID', 'is reserved', victim(Entry('skill-creator/skill-creator/SKILL.md'))
    yield 'hidden', 'INVALID', '.git', victim(Entry('.git/config'))


def gbk_names():
    """A name for each corner of GBK: ASCII, GB 2312, second bytes of a backslash, a bar and a letter."""
    return ['天气/说明.txt', '天气/誠.txt', '天气/乗嘰.md', '天气/sub dir/ok.txt', '天气/脚本/run.sh']


def made(names, encoding, command):
    """By a real program, from files whose names are bytes of that encoding."""
    with tempfile.TemporaryDirectory() as top:
        for name in names:
            path = os.path.join(os.fsencode(top), name.encode(encoding))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'w') as out:
                out.write(name)
        subprocess.run([*command, 'made.zip', names[0].split('/')[0].encode(encoding)], cwd=top, check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, 'LC_ALL': 'C.UTF-8'})
        with open(os.path.join(top, 'made.zip'), 'rb') as got:
            return got.read()


def good():
    names = gbk_names()
    files = sorted(names, key=lambda n: n.encode().replace(b'/', b'\1'))
    of = lambda *n: '|'.join(n)
    yield 'plain', 'utf8', of('ok/SKILL.md', 'ok/a/b.txt'), build([Entry('ok/SKILL.md'), directory('ok/a/'), Entry('ok/a/b.txt')])
    yield 'gbk', 'gbk', of(*files), build([Entry(n.encode('gbk'), n.encode(), flags=0) for n in names])
    yield 'gbk_windows', 'gbk', of(*files), build(
        [Entry(n.encode('gbk'), n.encode(), flags=0, host=0, mode=0, dos=0x20) for n in names])
    yield 'utf8_unflagged', 'utf8', of(*files), build([Entry(n, n.encode(), flags=0) for n in names])
    yield 'mixed', 'gbk', of('ok/天.txt', 'ok/说明.txt'), build(
        [Entry('ok/天.txt'), Entry('ok/说明.txt'.encode('gbk'), flags=0)])
    yield 'unicode_path', 'utf8', of('ok/天.txt'), build(
        [Entry(b'ok/\xcc.txt', flags=0, extra=unicode_path(b'ok/\xcc.txt', 'ok/天.txt'.encode()))])
    yield 'unicode_path_stale', 'gbk', of('ok/天.txt'), build(
        [Entry('ok/天.txt'.encode('gbk'), flags=0, extra=unicode_path(b'another', b'ok/wrong'))])
    yield 'backslashes', 'utf8', of('ok/a/b.txt'), build([Entry('ok\\a\\b.txt', host=0, mode=0)])
    yield 'dots', 'utf8', of('ok/...', 'ok/..a', 'ok/a..b'), build([Entry('./ok/..a'), Entry('ok//a..b'), Entry('ok/...')])
    yield 'finder', 'utf8', of('ok/SKILL.md'), build(
        [Entry('ok/SKILL.md'), Entry('ok/._SKILL.md'), Entry('ok/.DS_Store'), Entry('__MACOSX/ok/._SKILL.md'), Entry('._ok')])
    yield 'loose', 'utf8', of('loose.txt', 'ok/SKILL.md'), build([Entry('ok/SKILL.md'), Entry('loose.txt')])
    yield 'twice_in_itself', 'utf8', of('ok/SKILL.md', 'ok/a/b'), build(
        [directory('ok/'), directory('ok/ok/'), Entry('ok/ok/SKILL.md'), Entry('ok/ok/a/b')])
    yield 'thrice_in_itself', 'utf8', of('ok/SKILL.md'), build([Entry('ok/ok/ok/SKILL.md')])
    yield 'not_in_itself', 'utf8', of('ok/README', 'ok/ok/SKILL.md'), build([Entry('ok/ok/SKILL.md'), Entry('ok/README')])
    yield 'not_in_itself_longer', 'utf8', of('ok/ok/a', 'ok/ok2/b'), build([Entry('ok/ok/a'), Entry('ok/ok2/b')])
    yield 'several', 'utf8', of('a/x', 'a-b/x', 'b/x'), build([Entry('b/x'), Entry('a-b/x'), Entry('a/x')])
    yield 'nested', 'utf8', of('ok/inner.zip'), build([Entry('ok/inner.zip', nested(2))])
    yield 'stored', 'utf8', of('ok/s'), build([Entry('ok/s', b'stored as it is', method=0)])
    yield 'behind', 'utf8', of('ok/s'), build([Entry('ok/s', b'abc' * 9, flags=U | 8, l_size=0, l_packed=0, l_crc=0)])
    yield 'zip64', 'utf8', of('ok/w'), build(
        [Entry('ok/w', b'wide', size=0xffffffff, packed=0xffffffff, extra=struct.pack('<HHQQ', 1, 16, 4, 6))],
        count=0xffff, end64={})
    yield 'comment', 'utf8', of('ok/x'), build([Entry('ok/x')], comment=b'made by hand')
    yield 'empty_file', 'utf8', of('ok/e'), build([Entry('ok/e', b'')])
    yield 'empty_file_unpacked', 'utf8', of('ok/e'), build([Entry('ok/e', b'', raw=b'')])
    yield 'colon', 'utf8', of('ok/a: b.txt'), build([Entry('ok/a: b.txt')])
    yield 'dos_dir', 'utf8', of('ok/d/x'), build([Entry('ok/d', b'', mode=0, dos=0x10, host=0, method=0), Entry('ok/d/x')])
    yield 'gbk_by_zip', 'gbk', of(*files), made(names, 'gbk', ['zip', '-qr'])
    yield 'utf8_by_zip', 'utf8', of(*files), made(names, 'utf-8', ['zip', '-qr'])
    yield 'utf8_by_7z', 'utf8', of(*files), made(names, 'utf-8', ['7z', 'a', '-tzip', '-mcu=on'])


def main():
    top = sys.argv[1]
    for kind, rows in (('bad', bad()), ('good', good())):
        os.makedirs(os.path.join(top, kind), exist_ok=True)
        with open(os.path.join(top, kind + '.tsv'), 'w') as table:
            for name, first, second, data in rows:
                with open(os.path.join(top, kind, name + '.zip'), 'wb') as out:
                    out.write(data)
                table.write(f'{name}\t{first}\t{second}\n')


main()
