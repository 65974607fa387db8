// Every view: a row here, a file in views/, texts in en.ts and zh.ts.
import type { ComponentType } from 'preact';
import type { Key } from './i18n';
import type { IconName } from './icons';
import { Fleet } from './views/fleet';

/** What a view is given: the parts of its address. Views of a box have `id`. */
export interface ViewProps {
  params: Record<string, string>;
}
export interface Route {
  pattern: string;
  title: Key;
  icon: IconName;
  /** In the side bar, or a tab of a box; neither: reached by links. */
  at?: 'side' | 'box';
  /** The key after "g". */
  key?: string;
  /** A feature of /v1/info that it needs; hidden without it. */
  needs?: string;
  /** Only for scope admin. */
  admin?: boolean;
  view: ComponentType<ViewProps> | (() => Promise<{ default: ComponentType<ViewProps> }>);
  lazy?: boolean;
}

export const routes: Route[] = [
  { pattern: '/ui/boxes', title: 'fleet.title', icon: 'boxes', at: 'side', key: 'b', view: Fleet },
  { pattern: '/ui/boxes/:id', title: 'overview.title', icon: 'gauge', at: 'box', key: 'o', lazy: true, view: () => import('./views/overview') },
  { pattern: '/ui/boxes/:id/terminal/*', title: 'terminal.title', icon: 'terminal', at: 'box', key: 't', lazy: true, view: () => import('./views/terminal') },
];
export const thread: Route = { pattern: '/ui/threads/:user/:thread', title: 'fleet.title', icon: 'boxes', lazy: true, view: () => import('./views/thread') };
