// Texts of the views that are loaded when they are first shown: by key, in more_en.ts and more_zh.ts.
import { fill, language } from './i18n';
import { more as en } from './more_en';
import { more as zh } from './more_zh';

export type Word = keyof typeof en;
export const w = (key: Word, values: Record<string, string | number> = {}): string =>
  fill((language.value === 'zh' ? zh : en)[key], values);
