// The view of what starts touch, with its title.

import type { View } from "../page.ts";
import { TouchView } from "./touch.tsx";

export const TOUCH_VIEWS = {
  touch: { title: "Needed bytes", Content: TouchView },
} as const satisfies Record<string, View>;
