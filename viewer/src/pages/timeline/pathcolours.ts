// The colours of a path: how its owner is known.

import { otherColour, rankColour, type Theme } from "../../draw/palette.ts";
import type { PathClass } from "../../types/timeline.ts";

/** From what is certain to what is not; what each means. */
export const CLASSES: Readonly<Record<PathClass, readonly [number, string]>> = {
  work: [2, "it worked"],
  linked: [0, "it released, by a link, what waited"],
  resource: [1, "it held what was waited for"],
  queue: [3, "it stood before it in a queue"],
  kernel: [5, "the kernel said so"],
  heuristic: [7, "it is likely, not known"],
  unexplained: [-1, "nobody knows"],
};

export const pathColour = (of: PathClass, theme: Theme): number =>
  CLASSES[of][0] < 0 ? otherColour(theme) : rankColour(CLASSES[of][0], theme);
