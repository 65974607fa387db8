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
  { pattern: '/ui/boxes/:id/files/*', title: 'files.title', icon: 'files', at: 'box', key: 'f', lazy: true, view: () => import('./views/files') },
  { pattern: '/ui/boxes/:id/changes', title: 'changes.title', icon: 'diff', at: 'box', key: 'c', lazy: true, view: () => import('./views/changes') },
  { pattern: '/ui/boxes/:id/processes/*', title: 'processes.title', icon: 'process', at: 'box', key: 'p', lazy: true, view: () => import('./views/processes') },
  { pattern: '/ui/boxes/:id/ports/*', title: 'ports.title', icon: 'ports', at: 'box', key: 'l', lazy: true, view: () => import('./views/ports') },
  { pattern: '/ui/boxes/:id/snapshots', title: 'snapshots.title', icon: 'snapshot', at: 'box', key: 's', lazy: true, view: () => import('./views/snapshots') },
  { pattern: '/ui/boxes/:id/timeline', title: 'timeline.title', icon: 'timeline', at: 'box', key: 'h', lazy: true, view: () => import('./views/timeline') },
  { pattern: '/ui/boxes/:id/skills', title: 'skills.title', icon: 'skills', at: 'box', lazy: true, view: () => import('./views/boxskills') },
  { pattern: '/ui/audit', title: 'audit.title', icon: 'audit', at: 'side', key: 'a', lazy: true, view: () => import('./views/audit') },
  { pattern: '/ui/events', title: 'events.title', icon: 'events', at: 'side', key: 'e', lazy: true, view: () => import('./views/events') },
  { pattern: '/ui/registry', title: 'registry.title', icon: 'skills', at: 'side', key: 'r', lazy: true, view: () => import('./views/registry') },
  { pattern: '/ui/machines', title: 'machines.title', icon: 'machines', at: 'side', key: 'm', lazy: true, view: () => import('./views/machines') },
  { pattern: '/ui/mcp', title: 'mcp.title', icon: 'mcp', at: 'side', lazy: true, view: () => import('./views/mcp') },
  { pattern: '/ui/tokens', title: 'tokens.title', icon: 'tokens', at: 'side', admin: true, lazy: true, view: () => import('./views/tokens') },
  { pattern: '/ui/system', title: 'system.title', icon: 'system', at: 'side', lazy: true, view: () => import('./views/system') },
];
export const thread: Route = { pattern: '/ui/threads/:user/:thread', title: 'fleet.title', icon: 'boxes', lazy: true, view: () => import('./views/thread') };
