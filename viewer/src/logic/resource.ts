// The filter by resource: what is typed is looked for in names, and names in what is typed, so that an address that was
// copied whole finds its host too. Pure.

/** Whether a name passes; both in lower case. */
const matches = (name: string, typed: string): boolean => name.includes(typed) || (name !== "" && typed.includes(name));

/** Names in lower case, made once. */
export type Lowered = readonly string[];
export const lowered = (names: readonly string[]): Lowered => names.map((name) => name.toLowerCase());

/** One byte for each name: 1 passes. `null`: nothing is typed, all pass. */
export function passingNames(names: Lowered, typed: string): Uint8Array | null {
  const text = typed.trim().toLowerCase();
  return text === "" ? null : Uint8Array.from(names, (name) => (matches(name, text) ? 1 : 0));
}

/** At most `most` different names that hold what is typed, those that begin with it first. */
export function suggested(names: readonly string[], low: Lowered, typed: string, most: number): string[] {
  const text = typed.trim().toLowerCase();
  if (text === "") return [];
  const [first, rest] = [new Set<string>(), new Set<string>()];
  for (let i = 0; i < names.length && first.size < most; i++) {
    const at = low[i].indexOf(text);
    if (at === 0) first.add(names[i]);
    else if (at > 0 && rest.size < most) rest.add(names[i]);
  }
  return [...new Set([...first, ...rest])].slice(0, most);
}
