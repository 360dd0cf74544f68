// The page's state as it stands behind the # of its address, so that a link shows the same again. Pure.

export const VIEWS = ["answer", "runs", "disk", "file", "files", "processes", "touch"] as const;
/** Of a heap recording; `change` is of two recordings, or of two moments. */
export const HEAP_VIEWS = ["answer", "heap", "tree", "flame", "slop", "growth", "change"] as const;
/** Of memory reports and watches: those that the page has something for. */
export const MEMORY_VIEWS = ["versions", "time", "memory"] as const;
/** Of events; `path` where somebody worked one out. */
export const TIMELINE_VIEWS = ["timeline", "path", "object", "gantt", "objects"] as const;
/** Of where the time of starts went. */
export const WHY_VIEWS = ["why", "stacks", "beside"] as const;
export type ViewName =
  | (typeof VIEWS)[number]
  | (typeof HEAP_VIEWS)[number]
  | (typeof MEMORY_VIEWS)[number]
  | (typeof TIMELINE_VIEWS)[number]
  | (typeof WHY_VIEWS)[number];

export interface Address {
  readonly view: ViewName;
  readonly values: Readonly<Record<string, string>>;
}

/** `#disk?q=file:libxul&x=0~12`; anything else is the first view of the page. */
export function parseAddress(hash: string, views: readonly ViewName[] = VIEWS): Address {
  const text = hash.replace(/^#/, "");
  const question = text.indexOf("?");
  const name = question < 0 ? text : text.slice(0, question);
  const values: Record<string, string> = {};
  if (question >= 0) for (const [key, value] of new URLSearchParams(text.slice(question + 1))) values[key] = value;
  return { view: views.find((view) => view === name) ?? views[0], values };
}

/** The other way; empty values are left out, names are sorted so that one state has one address. */
export function addressText(address: Address): string {
  const names = Object.keys(address.values)
    .filter((name) => address.values[name] !== "")
    .sort();
  // URLSearchParams also escapes what an address bar shows well: put the common ones back.
  const query = names
    .map(
      (name) =>
        `${name}=${encodeURIComponent(address.values[name])
          .replace(/%(2F|3A|2C|7E|40)/g, decodeURIComponent)
          .replace(/%20/g, "+")}`,
    )
    .join("&");
  return query === "" ? `#${address.view}` : `#${address.view}?${query}`;
}
