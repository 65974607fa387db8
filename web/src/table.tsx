// A table that draws only the rows in view: fixed row height, real <table>, head that stays.
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { t } from './i18n';
import { Icon } from './icons';

export interface Column<T> {
  id: string;
  label: string;
  /** Sorted by this; without it the column has no order. */
  value?: (row: T) => string | number | null;
  cell: (row: T) => ComponentChildren;
  /** Numbers are aligned right. */
  end?: boolean;
  width?: string;
  /** Hidden when the table is narrower than so many pixels. */
  from?: number;
}

export function sortRows<T>(rows: T[], columns: Column<T>[], sort: string): T[] {
  const down = sort.startsWith('-'), column = columns.find((each) => each.id === sort.replace(/^-/, ''));
  if (!column?.value) return rows;
  const value = column.value, sign = down ? -1 : 1;
  return rows.map((row) => [value(row), row] as const).sort(([a], [b]) => {
    if (a === b) return 0;
    if (a === null) return 1;
    if (b === null) return -1;
    return (a < b ? -1 : 1) * sign;
  }).map(([, row]) => row);
}

export const ROW_PX = 36;

export function Table<T>({ rows, columns, keyOf, sort, onSort, selected, onSelect, current, rowProps, label, height = ROW_PX }: {
  rows: T[]; columns: Column<T>[]; keyOf: (row: T) => string; sort?: string; onSort?: (sort: string) => void;
  /** With these two, rows have check boxes. */
  selected?: Set<string>; onSelect?: (selected: Set<string>) => void;
  /** Index of the row that keys act on. */
  current?: number; rowProps?: (row: T, index: number) => Record<string, unknown>; label: string; height?: number;
}) {
  const ref = useRef<HTMLDivElement>(null), [view, setView] = useState({ top: 0, height: 900, width: 1200 });
  useLayoutEffect(() => {
    const element = ref.current!;
    const look = () => setView((now) => {
      const part = 4 * height; // drawn again after four rows, not after each pixel
      const next = { top: Math.floor(element.scrollTop / part) * part, height: element.clientHeight, width: element.clientWidth };
      return next.top === now.top && next.height === now.height && next.width === now.width ? now : next;
    });
    const watch = new ResizeObserver(look);
    watch.observe(element);
    element.addEventListener('scroll', look, { passive: true });
    look();
    return () => { watch.disconnect(); element.removeEventListener('scroll', look); };
  }, []);
  useLayoutEffect(() => {
    if (current === undefined || current < 0) return;
    const element = ref.current!, top = current * height, room = element.clientHeight - 2 * height;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top > element.scrollTop + room) element.scrollTop = top - room;
  }, [current]);
  const shown = columns.filter((column) => !column.from || view.width >= column.from);
  const virtual = rows.length > 200;
  const first = virtual ? Math.max(0, Math.floor(view.top / height) - 8) : 0;
  const last = virtual ? Math.min(rows.length, Math.ceil((view.top + view.height) / height) + 12) : rows.length;
  const all = selected !== undefined && rows.length > 0 && rows.every((row) => selected.has(keyOf(row)));
  const toggle = (key: string) => {
    const next = new Set(selected);
    if (!next.delete(key)) next.add(key);
    onSelect?.(next);
  };
  return (
    <div class="table" ref={ref} role="region" aria-label={label} tabIndex={0}>
      <table aria-rowcount={rows.length + 1}>
        <thead><tr>
          {selected && <th class="pick"><input type="checkbox" checked={all} aria-label={t('select.all')}
            onChange={() => onSelect?.(all ? new Set() : new Set(rows.map(keyOf)))} /></th>}
          {shown.map((column) => {
            const by = sort?.replace(/^-/, '') === column.id, down = sort?.startsWith('-');
            return (
              <th key={column.id} class={column.end ? 'end' : ''} style={column.width ? { width: column.width } : undefined} scope="col"
                aria-sort={by ? (down ? 'descending' : 'ascending') : undefined}>
                {column.value && onSort ? <button type="button" onClick={() => onSort(by && !down ? `-${column.id}` : column.id)}>
                  {column.label}{by && <Icon name={down ? 'down' : 'up'} size={12} />}</button> : column.label}
              </th>
            );
          })}
        </tr></thead>
        <tbody>
          {first > 0 && <tr class="space" style={{ height: `${first * height}px` }} aria-hidden="true" />}
          {rows.slice(first, last).map((row, i) => {
            const key = keyOf(row), index = first + i, picked = selected?.has(key);
            return (
              <tr key={key} aria-rowindex={index + 2} aria-selected={picked} style={{ height: `${height}px` }} {...rowProps?.(row, index)}
                class={`${index === current ? 'current' : ''} ${picked ? 'picked' : ''} ${(rowProps?.(row, index)['class'] as string | undefined) ?? ''}`}>
                {selected && <td class="pick"><input type="checkbox" checked={picked} aria-label={t('select.one', { name: key })} onChange={() => toggle(key)} /></td>}
                {shown.map((column) => <td key={column.id} class={column.end ? 'end' : ''}>{column.cell(row)}</td>)}
              </tr>
            );
          })}
          {last < rows.length && <tr class="space" style={{ height: `${(rows.length - last) * height}px` }} aria-hidden="true" />}
        </tbody>
      </table>
    </div>
  );
}
