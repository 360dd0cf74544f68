// Which plot hears the keys that move: the last one that was pointed at, else the first.

import type { Step } from "../logic/view.ts";

interface Takes {
  readonly name: string;
  /** Whether there was anything to move. */
  take(by: Step): boolean;
}
const plots: Takes[] = [];
let active: Takes | null = null;

/** Makes a plot hear keys; the result forgets it again. */
export function registerPlot(plot: Takes): (() => void) & { activate: () => void } {
  plots.push(plot);
  const forget = () => {
    plots.splice(plots.indexOf(plot), 1);
    if (active === plot) active = null;
  };
  return Object.assign(forget, {
    activate: () => {
      active = plot;
    },
  });
}

/** The plot that hears keys; `null`: there is none in sight. */
export const activePlot = (): Takes | null => active ?? plots[0] ?? null;
