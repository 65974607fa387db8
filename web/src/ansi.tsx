// Output of programs with its colours, as text nodes. Other controls are left out.
import type { ComponentChildren } from 'preact';

const names = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
export function Ansi({ text }: { text: string }) {
  const out: ComponentChildren[] = [];
  let style = '', key = 0;
  // eslint-disable-next-line no-control-regex
  const parts = text.replace(/\r\n/g, '\n').split(/(\u001b\[[0-9;?]*[A-Za-z]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b.)/);
  for (const part of parts) {
    if (!part) continue;
    if (part[0] !== '\u001b') {
      const clean = part.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, (c) => c === '\r' ? '\n' : '');
      out.push(style ? <span key={key++} class={style}>{clean}</span> : clean);
      continue;
    }
    const sgr = /^\u001b\[([0-9;]*)m$/.exec(part);
    if (!sgr) continue;
    const words = new Set(style.split(' ').filter(Boolean));
    for (const code of (sgr[1] || '0').split(';').map(Number)) {
      const colour = code >= 30 && code <= 37 ? code - 30 : code >= 90 && code <= 97 ? code - 90 : -1;
      if (code === 0) words.clear();
      if (code === 1) words.add('ansi-bold');
      if (colour >= 0 || code === 39) for (const word of words) if (word !== 'ansi-bold') words.delete(word);
      if (colour >= 0) words.add(`ansi-${names[colour]}`);
    }
    style = [...words].join(' ');
  }
  return <>{out}</>;
}
