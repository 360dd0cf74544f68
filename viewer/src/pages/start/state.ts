// What the views of timed runs show just now.

import { kept } from "../../state.ts";

/** What the charts of runs show. */
export const metric = kept("metric", "wall_s");
