// A tar archive of files of the browser, as parts of one Blob: nothing is read into memory here.
export interface Upload {
  /** Relative, with slashes. */
  path: string;
  file: File;
}
const encoder = new TextEncoder();

function header(name: Uint8Array, size: number, type: string, mtime: number): Uint8Array<ArrayBuffer> {
  const block = new Uint8Array(512);
  const put = (at: number, text: string) => block.set(encoder.encode(text), at);
  const octal = (at: number, length: number, value: number) => put(at, value.toString(8).padStart(length - 1, '0'));
  block.set(name.subarray(0, 100), 0);
  octal(100, 8, 0o644);
  octal(108, 8, 0);
  octal(116, 8, 0);
  if (size < 8 ** 11) octal(124, 12, size);
  else { // base 256, as GNU has it
    block[124] = 0x80;
    for (let i = 135, rest = size; i > 124 && rest; i--, rest = Math.floor(rest / 256)) block[i] = rest % 256;
  }
  octal(136, 12, Math.max(0, Math.floor(mtime / 1000)));
  put(148, '        ');
  put(156, type);
  put(257, 'ustar\u000000');
  octal(148, 7, block.reduce((sum, byte) => sum + byte, 0));
  block[154] = 0;
  return block;
}
const padding = (size: number) => new Uint8Array((512 - size % 512) % 512);

/** One record of an extended header: its own length counts. */
function record(name: string, value: string): Uint8Array {
  const rest = encoder.encode(` ${name}=${value}\n`).length;
  let length = rest + 1;
  while (String(length).length + rest !== length) length = String(length).length + rest;
  return encoder.encode(`${length} ${name}=${value}\n`);
}

export function tar(files: Upload[]): Blob {
  const parts: BlobPart[] = [];
  for (const { path, file } of files) {
    const name = encoder.encode(path);
    if (name.length > 100) {
      const more = record('path', path) as Uint8Array<ArrayBuffer>;
      parts.push(header(encoder.encode('pax'), more.length, 'x', 0), more, padding(more.length));
    }
    parts.push(header(name, file.size, '0', file.lastModified), file, padding(file.size));
  }
  parts.push(new Uint8Array(1024));
  return new Blob(parts, { type: 'application/x-tar' });
}

/** The files of a drop, also in folders. Must be called before anything is awaited: the list is empty afterwards. */
export async function dropped(data: DataTransfer): Promise<Upload[]> {
  const entries = [...data.items].map((item) => item.webkitGetAsEntry?.()).filter((entry): entry is FileSystemEntry => Boolean(entry));
  const found: Upload[] = [];
  const visit = async (entry: FileSystemEntry, under: string): Promise<void> => {
    if (entry.isFile) {
      const file = await new Promise<File>((good, bad) => (entry as FileSystemFileEntry).file(good, bad));
      found.push({ path: under + entry.name, file });
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) { // at most 100 a turn
      const some = await new Promise<FileSystemEntry[]>((good, bad) => reader.readEntries(good, bad));
      if (!some.length) return;
      for (const each of some) await visit(each, `${under}${entry.name}/`);
    }
  };
  for (const entry of entries) await visit(entry, '');
  return found;
}
export const chosen = (list: FileList): Upload[] => [...list].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
