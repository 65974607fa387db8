// Icons of our own: paths on a grid of 16, drawn with the colour of the text.
const paths = {
  boxes: 'M2.5 3.5h11v9h-11zM2.5 8h11M8 3.5V8',
  gauge: 'M2.5 12a5.5 5.5 0 1 1 11 0M8 12l2.5-4',
  terminal: 'M2.5 3h11v10h-11zM5 6l2 2-2 2M8.5 10.5h3',
  files: 'M2.5 4h4l1.5 2h5.5v7h-11z',
  diff: 'M8 2.5v6M5 5.5h6M5 12.5h6',
  process: 'M2 8h3l1.5-4 3 8L11 8h3',
  ports: 'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M2.5 8h11M8 2.5c-3 3-3 8 0 11 3-3 3-8 0-11',
  snapshot: 'M2.5 5h2.5l1-1.5h4L11 5h2.5v7.5h-11zM8 6.8a2 2 0 1 0 0 4 2 2 0 0 0 0-4',
  timeline: 'M4.5 2.5v11M4.5 4.5h8M4.5 8h5M4.5 11.5h7',
  skills: 'M8 2.5l1.7 3.6 3.8.5-2.8 2.7.7 3.9L8 11.3l-3.4 1.9.7-3.9L2.5 6.6l3.8-.5z',
  machines: 'M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01',
  tokens: 'M5.5 7.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M7.5 8.5l6-6M11 5l2 2',
  mcp: 'M5.5 2.5v3M10.5 2.5v3M3.5 5.5h9v3a4.5 4.5 0 0 1-9 0zM8 13v1.5',
  audit: 'M4 2.5h8v11H4zM6 5.5h4M6 8h4M6 10.5h2.5',
  events: 'M3 8a5 5 0 0 1 5-5M3 8a5 5 0 0 0 5 5M8 6v2.5l2 1.2M13 8a5 5 0 0 0-2.5-4.3',
  system: 'M8 5.8a2.2 2.2 0 1 0 0 4.4 2.2 2.2 0 0 0 0-4.4M8 2v2M8 12v2M2 8h2M12 8h2M3.8 3.8l1.4 1.4M10.8 10.8l1.4 1.4M12.2 3.8l-1.4 1.4M5.2 10.8l-1.4 1.4',
  plus: 'M8 3v10M3 8h10', close: 'M4 4l8 8M12 4l-8 8', more: 'M3.5 8h.01M8 8h.01M12.5 8h.01', search: 'M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8M10 10l3.5 3.5',
  pause: 'M5.5 3.5v9M10.5 3.5v9', play: 'M5 3.5l7 4.5-7 4.5z', trash: 'M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.7 8.5h5.6l.7-8.5', copy: 'M5.5 5.5h7v7h-7zM3.5 10.5v-7h7',
  up: 'M4 10l4-4 4 4', down: 'M4 6l4 4 4-4', left: 'M10 4L6 8l4 4', right: 'M6 4l4 4-4 4', refresh: 'M12.5 8a4.5 4.5 0 1 1-1.3-3.2M12.5 2.5V5H10', check: 'M3.5 8.5l3 3 6-7',
  warn: 'M8 2.5l6 11H2zM8 7v3M8 12h.01', info: 'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 7.5v3.5M8 5h.01', sun: 'M8 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M8 1.8v1.4M8 12.8v1.4M1.8 8h1.4M12.8 8h1.4M3.6 3.6l1 1M11.4 11.4l1 1M12.4 3.6l-1 1M4.6 11.4l-1 1',
  moon: 'M12.5 10A5.5 5.5 0 0 1 6 3.5a5 5 0 1 0 6.5 6.5', download: 'M8 2.5v7M5 7l3 3 3-3M3 12.5h10', upload: 'M8 10V3M5 5.5l3-3 3 3M3 12.5h10', full: 'M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3', fork: 'M4.5 2.5v11M4.5 8h4a3 3 0 0 0 3-3V2.5',
  external: 'M9 3h4v4M13 3L7.5 8.5M11 9.5V13H3V5h3.5', split: 'M2.5 3h11v10h-11zM8 3v10', user: 'M8 3a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M3 13.5a5 5 0 0 1 10 0', logout: 'M6.5 3H3v10h3.5M7 8h6M10.5 5.5L13 8l-2.5 2.5', rollback: 'M3 5.5h6.5a3.5 3.5 0 0 1 0 7H5M5.5 3L3 5.5 5.5 8', folder: 'M2.5 4h4l1.5 2h5.5v7h-11z', file: 'M4 2.5h5l3 3v8H4zM9 2.5v3h3',
};
export type IconName = keyof typeof paths;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.4"
      stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d={paths[name]} /></svg>
  );
}
