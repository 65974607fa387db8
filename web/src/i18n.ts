// Texts by key: English is in the main bundle, Chinese is loaded when it is wanted. Nothing is shown before that.
import { signal } from '@preact/signals';
import { en, type Key } from './en';
import { setting } from './settings';

export type { Key };
export const languages = { en: 'English', zh: '中文' } as const;
export type Language = keyof typeof languages;

let table: Record<Key, string> = en;
/** Changes when another language is shown. */
export const language = signal<Language>('en');

const wanted = (): Language => {
  const chosen = setting('language');
  if (chosen === 'en' || chosen === 'zh') return chosen;
  return navigator.languages.some((each) => /^zh\b/i.test(each)) && !/^en\b/i.test(navigator.languages[0] ?? '') ? 'zh' : 'en';
};

export async function useLanguage(next: Language): Promise<void> {
  table = next === 'zh' ? (await import('./zh')).zh : en;
  document.documentElement.lang = next === 'zh' ? 'zh-CN' : 'en';
  language.value = next;
}
export const languageReady = useLanguage(wanted());

/** The text of a key. {name} is replaced; {n#box|boxes} is the number with the word that fits it. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  language.value; // a text is drawn again when the language changes
  return fill(table[key], values);
}
export const fill = (text: string, values: Record<string, string | number>): string =>
  text.replace(/\{(\w+)(?:#([^|}]*)\|([^}]*))?\}/g, (_, name: string, one?: string, many?: string) => {
    const value = values[name] ?? '';
    return one === undefined ? String(value) : `${number(Number(value))} ${value === 1 ? one : many}`;
  });

const made = new Map<string, Intl.NumberFormat | Intl.DateTimeFormat>();
/** A format, made once: making one takes longer than drawing a row. */
function format<T extends Intl.NumberFormat | Intl.DateTimeFormat>(name: string, make: (locale: string) => T): T {
  const locale = document.documentElement.lang, key = locale + name;
  let found = made.get(key) as T | undefined;
  if (!found) made.set(key, found = make(locale));
  return found;
}
export const number = (value: number, digits = 0) =>
  format(`number${digits}`, (locale) => new Intl.NumberFormat(locale, { maximumFractionDigits: digits })).format(value);
export const clock = (at: string | number | Date) =>
  format('clock', (locale) => new Intl.DateTimeFormat(locale, { timeStyle: 'medium' })).format(new Date(at));
export const dateTime = (at: string | number | Date) =>
  format('dateTime', (locale) => new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'medium' })).format(new Date(at));

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
/** Bytes for people: 1.4 MiB. */
export function size(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return '–';
  let unit = 0;
  for (; bytes >= 1000 && unit < units.length - 1; unit++) bytes /= 1024;
  return `${number(bytes, bytes < 10 && unit ? 1 : 0)} ${units[unit]}`;
}

/** A duration in at most two parts: 3 d, 2 h 5 min. */
export function duration(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return t('time.s', { n: s });
  if (s < 3600) return t('time.min', { n: Math.floor(s / 60) });
  if (s < 86400) return t('time.h', { n: Math.floor(s / 3600) });
  return t('time.d', { n: Math.floor(s / 86400) });
}
