// A path that leads to its file.

import type { JSX } from "preact";
import { PathName } from "../../parts/bits.tsx";
import { fileAddress, openFile } from "./chosenfile.ts";

/** A path that leads to the file's own view. */
export function FileLink({ path }: { path: string }): JSX.Element {
  const go = (event: Event) => {
    event.preventDefault();
    event.stopPropagation();
    openFile(path);
  };
  return (
    <a href={fileAddress(path)} onClick={go} class="filelink">
      <PathName path={path} />
    </a>
  );
}
