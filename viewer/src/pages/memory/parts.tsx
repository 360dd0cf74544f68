// What the views of memory pages share.

import type { JSX } from "preact";
import { memoryDamaged, memoryPage } from "./state.ts";

/** What stands instead of a view while there is nothing to show; `null`: there is. */
export function memoryWaiting(): JSX.Element | null {
  if (memoryDamaged.value !== null)
    return (
      <p class="failed" role="alert">
        This page cannot be shown: {memoryDamaged.value}.
      </p>
    );
  if (memoryPage.value === null) return <p class="none">Unpacking the reports …</p>;
  return null;
}
