// What a file looks like, without ever running anything of it: pictures and sound by blob, Markdown and HTML in a frame
// without rights, tables, the first bytes of the rest.
import { useEffect, useRef, useState } from 'preact/hooks';
import { size } from './i18n';
import { w } from './more';

const suffix = (path: string) => /\.([a-z0-9]+)$/i.exec(path)?.[1]?.toLowerCase() ?? '';
const media: Record<string, string> = { png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp', bmp: 'image/bmp', ico: 'image/x-icon', avif: 'image/avif', svg: 'image/svg+xml',
  mp3: 'audio/mpeg', ogg: 'audio/ogg', wav: 'audio/wav', flac: 'audio/flac', mp4: 'video/mp4', webm: 'video/webm' };
export type Kind = 'media' | 'html' | 'markdown' | 'table' | null;
export const kindOf = (path: string): Kind => {
  const end = suffix(path);
  return media[end] ? 'media' : ['html', 'htm'].includes(end) ? 'html' : ['md', 'markdown'].includes(end) ? 'markdown' : ['csv', 'tsv'].includes(end) ? 'table' : null;
};
/** Can only be looked at, not edited. */
export const isMedia = (path: string) => kindOf(path) === 'media' && suffix(path) !== 'svg';

const policy = (globalThis as any).trustedTypes?.createPolicy('cubby', { createHTML: (text: string) => text }) ?? { createHTML: (text: string) => text };
/** HTML of a box: no scripts, no forms, no links that lead anywhere, no requests. */
function Frame({ html }: { html: string }) {
  const ref = useRef<HTMLIFrameElement>(null);
  useEffect(() => {
    const guard = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; style-src \'unsafe-inline\'"><base target="_blank">';
    (ref.current as { srcdoc: unknown }).srcdoc = policy.createHTML(`${guard}<body style="background:#fff;color:#1b2326;font:15px/1.55 system-ui,sans-serif;margin:16px;max-width:80ch">${html}`);
  }, [html]);
  return <iframe ref={ref} class="preview-frame" sandbox="" title={w('files.preview')} />;
}

function Media({ path, bytes }: { path: string; bytes: Uint8Array<ArrayBuffer> }) {
  const [url, setUrl] = useState(''), type = media[suffix(path)]!, [shape, setShape] = useState('');
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([bytes], { type }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [bytes]);
  if (!url) return null;
  if (type.startsWith('audio')) return <div class="preview-media"><audio controls src={url} /></div>;
  if (type.startsWith('video')) return <div class="preview-media"><video controls src={url} /></div>;
  return <div class="preview-media"><img src={url} alt={path} onLoad={(event) => setShape(`${event.currentTarget.naturalWidth} × ${event.currentTarget.naturalHeight}`)} /><p class="dim">{shape && `${shape} · `}{size(bytes.length)}</p></div>;
}

function rowsOf(text: string, between: string): string[][] {
  const rows: string[][] = [[]];
  let cell = '', quoted = false;
  for (let i = 0; i < text.length && rows.length <= 1000; i++) {
    const c = text[i]!;
    if (quoted) {
      if (c === '"' && text[i + 1] === '"') { cell += c; i++; } else if (c === '"') quoted = false;
      else cell += c;
    } else if (c === '"' && !cell) quoted = true;
    else if (c === between || c === '\n') {
      rows.at(-1)!.push(cell.replace(/\r$/, ''));
      cell = '';
      if (c === '\n') rows.push([]);
    } else cell += c;
  }
  if (cell || rows.at(-1)!.length) rows.at(-1)!.push(cell);
  return rows.filter((row) => row.length);
}

export function Hex({ bytes, total }: { bytes: Uint8Array; total: number }) {
  const lines: string[] = [];
  for (let at = 0; at < Math.min(bytes.length, 4096); at += 16) {
    const part = [...bytes.subarray(at, at + 16)];
    lines.push(`${at.toString(16).padStart(8, '0')}  ${part.map((byte) => byte.toString(16).padStart(2, '0')).join(' ').padEnd(48)} ${part.map((byte) => byte > 31 && byte < 127 ? String.fromCharCode(byte) : '.').join('')}`);
  }
  return <div class="preview-hex"><p class="dim">{w('files.binary', { size: size(total) })}</p><pre tabIndex={0}>{lines.join('\n')}</pre></div>;
}

export function Preview({ path, bytes, text }: { path: string; bytes: Uint8Array<ArrayBuffer>; text: string }) {
  const kind = kindOf(path), [html, setHtml] = useState<string | null>(null);
  useEffect(() => {
    setHtml(null);
    if (kind === 'html') setHtml(text);
    if (kind === 'markdown') void import('marked').then(({ marked }) => setHtml(marked.parse(text, { async: false }) as string));
  }, [kind, text]);
  if (kind === 'media') return <Media path={path} bytes={bytes} />;
  if (kind === 'table') {
    const rows = rowsOf(text, suffix(path) === 'tsv' ? '\t' : ',');
    return <div class="table preview-table" tabIndex={0}><table><tbody>{rows.slice(0, 1000).map((row, i) => <tr key={i}>{row.slice(0, 100).map((cell, j) => i ? <td key={j}>{cell}</td> : <th key={j}>{cell}</th>)}</tr>)}</tbody></table></div>;
  }
  return html === null ? null : <Frame html={html} />;
}
