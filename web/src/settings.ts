// Choices of this browser, kept in localStorage; the token's place is in session.ts.
import { signal } from '@preact/signals';

const PREFIX = 'cubby.';
const changed = signal(0);

export function setting(name: string): string | null {
  changed.value;
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null; // storage is turned off: defaults
  }
}

export function setSetting(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch { /* it holds until the page is closed */ }
  changed.value++;
}

/** light, dark or as the system has it */
export function applyTheme(): void {
  const theme = setting('theme');
  document.documentElement.style.colorScheme = theme === 'light' || theme === 'dark' ? theme : 'light dark';
  document.documentElement.dataset['theme'] = isDark() ? 'dark' : 'light';
  dark.value = isDark();
}
const system = matchMedia('(prefers-color-scheme: dark)');
const isDark = () => (setting('theme') ?? 'auto') === 'dark' || (setting('theme') !== 'light' && system.matches);
/** For what draws by itself: terminals and plots. */
export const dark = signal(isDark());
system.addEventListener('change', applyTheme);

/** A small screen, as in style.css. */
const small = matchMedia('(max-width: 760px)');
export const narrow = signal(small.matches);
small.addEventListener('change', () => { narrow.value = small.matches; });
