// Two texts beside each other, or one over the other, with what differs.
import { MergeView, unifiedMergeView } from '@codemirror/merge';
import { EditorState } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { useEffect, useRef } from 'preact/hooks';
import { base, languageOf } from './editor';
import { w } from './more';
import { dark } from './settings';

export default function Compare({ path, before, after, unified }: { path: string; before: string; after: string; unified?: boolean }) {
  const ref = useRef<HTMLDivElement>(null), isDark = dark.value;
  useEffect(() => {
    let ended = false, end = () => undefined as void;
    void languageOf(path).catch(() => []).then((language) => {
      if (ended || !ref.current) return;
      const side = (label: string) => [base(isDark), language, EditorState.readOnly.of(true), EditorView.editable.of(false), EditorView.contentAttributes.of({ 'aria-label': `${label} ${path}` })];
      const folded = { collapseUnchanged: { margin: 3, minSize: 6 } };
      if (unified) {
        const view = new EditorView({ parent: ref.current, doc: after, extensions: [side(w('changes.to')), unifiedMergeView({ original: before, mergeControls: false, gutter: true, ...folded })] });
        end = () => view.destroy();
      } else {
        const view = new MergeView({ parent: ref.current, a: { doc: before, extensions: side(w('changes.from')) }, b: { doc: after, extensions: side(w('changes.to')) }, gutter: true, ...folded });
        end = () => view.destroy();
      }
    });
    return () => { ended = true; end(); };
  }, [path, before, after, unified, isDark]);
  return <div class="compare" ref={ref} />;
}
