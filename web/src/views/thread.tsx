// /ui/threads/USER/THREAD: to the box of that thread, whose id is made of both names.
import { useEffect } from 'preact/hooks';
import { go, href } from '../router';
import type { ViewProps } from '../routes';
import { Skeleton } from '../ui';

export default function Thread({ params }: ViewProps) {
  useEffect(() => {
    void crypto.subtle.digest('SHA-256', new TextEncoder().encode(`${params['user']}:${params['thread']}`)).then((sum) => {
      const id = Array.from(new Uint8Array(sum).subarray(0, 8), (byte) => byte.toString(16).padStart(2, '0')).join('');
      go(href('boxes', id), 'replace');
    });
  }, []);
  return <Skeleton />;
}
