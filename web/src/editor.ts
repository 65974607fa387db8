// CodeMirror with the languages of files, each loaded when it is first needed.
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { bracketMatching, defaultHighlightStyle, foldGutter, foldKeymap, HighlightStyle, indentOnInput, LanguageSupport, StreamLanguage, syntaxHighlighting } from '@codemirror/language';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState, type Extension } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';

const nonce = document.querySelector<HTMLMetaElement>('meta[name=nonce]')?.nonce ?? '';
const stream = async (load: Promise<any>, name: string) => new LanguageSupport(StreamLanguage.define((await load)[name]));
const languages: [RegExp, () => Promise<Extension>][] = [
  [/\.(m?[jt]sx?|cjs|cts)$/, async () => (await import('@codemirror/lang-javascript')).javascript({ typescript: true, jsx: true })],
  [/\.(c|h|cc|cpp|hpp|cxx|java|cs|kt)$/, async () => (await import('@codemirror/lang-cpp')).cpp()],
  [/\.pyi?$/, async () => (await import('@codemirror/lang-python')).python()],
  [/\.rs$/, async () => (await import('@codemirror/lang-rust')).rust()],
  [/\.go$/, async () => (await import('@codemirror/lang-go')).go()],
  [/\.(html?|vue|svelte|xml|svg)$/, async () => (await import('@codemirror/lang-html')).html()],
  [/\.(css|scss|less)$/, async () => (await import('@codemirror/lang-css')).css()],
  [/\.(json|jsonl|ipynb)$/, async () => (await import('@codemirror/lang-json')).json()],
  [/\.(md|markdown)$/, async () => (await import('@codemirror/lang-markdown')).markdown()],
  [/\.ya?ml$/, async () => (await import('@codemirror/lang-yaml')).yaml()],
  [/\.(sh|bash|zsh)$|(^|\/)\.(bash\w*|profile|zshrc)$/, () => stream(import('@codemirror/legacy-modes/mode/shell'), 'shell')],
  [/\.toml$/, () => stream(import('@codemirror/legacy-modes/mode/toml'), 'toml')],
  [/(^|\/)(Dockerfile|Containerfile)$/, () => stream(import('@codemirror/legacy-modes/mode/dockerfile'), 'dockerFile')],
];

const darkColours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: '#d2a8ff' }, { tag: [tags.string, tags.special(tags.string), tags.regexp], color: '#8ed6a4' },
  { tag: [tags.comment, tags.meta], color: '#93a1a8', fontStyle: 'italic' }, { tag: [tags.number, tags.bool, tags.null, tags.atom], color: '#f2b880' },
  { tag: [tags.function(tags.variableName), tags.propertyName, tags.attributeName], color: '#8ab4ff' }, { tag: [tags.typeName, tags.className, tags.tagName, tags.namespace], color: '#6fdfe6' },
  { tag: [tags.heading], color: '#4fd1c1', fontWeight: 'bold' }, { tag: [tags.link, tags.url], color: '#8ab4ff', textDecoration: 'underline' }, { tag: tags.invalid, color: '#ff8a80' },
]);
const look = (isDark: boolean) => [
  EditorView.theme({
    '&': { height: '100%', backgroundColor: 'transparent', color: 'var(--text)', fontSize: '13px' }, '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55' },
    '.cm-gutters': { backgroundColor: 'transparent', border: '0', color: 'var(--dim)' }, '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--hover)' },
    '.cm-cursor': { borderLeftColor: 'var(--text)' }, '&.cm-focused': { outline: 'none' }, '&.cm-focused .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: isDark ? '#1f5c55 !important' : '#b6e3dc !important' },
    '.cm-panels': { backgroundColor: 'var(--card)', color: 'var(--text)' }, '.cm-panel input, .cm-panel button': { font: 'inherit', backgroundImage: 'none', backgroundColor: 'var(--card)', color: 'inherit' },
    '.cm-foldPlaceholder': { backgroundColor: 'var(--hover)', border: '0', color: 'var(--dim)' },
  }, { dark: isDark }), syntaxHighlighting(isDark ? darkColours : defaultHighlightStyle, { fallback: true })];

/** What editors and comparisons share. */
export const base = (isDark: boolean): Extension => [lineNumbers(), highlightSpecialChars(), drawSelection(), EditorView.cspNonce.of(nonce), look(isDark)];

export async function languageOf(path: string): Promise<Extension> {
  return (await languages.find(([names]) => names.test(path))?.[1]()) ?? [];
}

export interface Editor {
  view: EditorView;
  text: () => string;
  replace: (text: string) => void;
  line: (line: number) => void;
  end: () => void;
}
export function edit(host: HTMLElement, { path, text, isDark, readOnly, label, onChange, onSave }: {
  path: string; text: string; isDark: boolean; readOnly: boolean; label: string; onChange: () => void; onSave: () => void }): Editor {
  const language = new Compartment();
  const view = new EditorView({ parent: host, state: EditorState.create({ doc: text, extensions: [
    base(isDark), history(), foldGutter(), indentOnInput(), bracketMatching(), highlightActiveLine(), highlightActiveLineGutter(), highlightSelectionMatches(), search({ top: true }),
    keymap.of([{ key: 'Mod-s', preventDefault: true, run: () => { onSave(); return true; } }, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap]),
    EditorState.readOnly.of(readOnly), EditorView.contentAttributes.of({ 'aria-label': label }), language.of([]),
    EditorView.updateListener.of((update) => { if (update.docChanged) onChange(); }),
  ] }) });
  void languageOf(path).then((found) => view.dispatch({ effects: language.reconfigure(found) }), () => undefined);
  return {
    view, text: () => view.state.doc.toString(), end: () => view.destroy(),
    replace: (next) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } }),
    line: (line) => {
      const at = view.state.doc.line(Math.max(1, Math.min(line, view.state.doc.lines))).from;
      view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: 'center' }) });
    },
  };
}
