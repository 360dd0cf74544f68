// Types as a tree of their namespaces, each with a box that is checked or not. Pure.
//
// What is checked is kept as rules: the box of `net::http` says what holds for all below it, unless a box below says
// otherwise. A type that is a namespace too has a line for itself below that, whose key ends with `::`.

export interface TypeNode {
  /** Segments joined by `::`; the root's is empty. */
  readonly key: string;
  readonly label: string;
  /** The type; `null`: only a namespace. */
  readonly type: number | null;
  /** Events of it and of all below. */
  readonly count: number;
  readonly types: number;
  readonly kids: readonly TypeNode[];
}

interface Draft {
  key: string;
  label: string;
  type: number | null;
  count: number;
  types: number;
  kids: Map<string, Draft>;
}

/** `names` by type; `counts` are events of each. Types without events are left out. */
export function typeTree(names: readonly string[], counts: ArrayLike<number>): TypeNode {
  const draft = (key: string, label: string): Draft => ({
    key,
    label,
    type: null,
    count: 0,
    types: 0,
    kids: new Map(),
  });
  const root = draft("", "all types");
  names.forEach((name, type) => {
    if (counts[type] === 0) return;
    let at = root;
    let key = "";
    for (const segment of segments(name)) {
      at.count += counts[type];
      at.types++;
      // The root has the empty key.
      key = at === root ? segment || "(empty)" : `${key}::${segment}`;
      let kid = at.kids.get(segment);
      if (kid === undefined) {
        kid = draft(key, segment);
        at.kids.set(segment, kid);
      }
      at = kid;
    }
    at.count += counts[type];
    at.types++;
    at.type = type;
  });
  return finished(root);
}

/** Namespaces that are told apart; what lies deeper is one. */
const DEEPEST = 24;

function segments(name: string): string[] {
  const all = name.split("::");
  return all.length <= DEEPEST ? all : [...all.slice(0, DEEPEST - 1), all.slice(DEEPEST - 1).join("::")];
}

function finished(draft: Draft): TypeNode {
  const kids = [...draft.kids.values()].map(finished);
  const { key, label, type, types, count } = draft;
  if (type !== null && kids.length > 0) {
    const own = count - kids.reduce((sum, kid) => sum + kid.count, 0);
    kids.push({ key: `${key}::`, label: "(itself)", type, count: own, types: 1, kids: [] });
    kids.sort(byCount);
    return { key, label, type: null, count, types, kids };
  }
  kids.sort(byCount);
  return { key, label, type, count, types, kids };
}

const byCount = (a: TypeNode, b: TypeNode) => b.count - a.count || (a.key < b.key ? -1 : 1);

/** Which boxes say something else than the box above them; the root's is checked unless it says so. */
export type Rules = ReadonlyMap<string, boolean>;

/** As the address has them: `-net::http,+net::http::transaction`. */
export const rulesText = (rules: Rules): string =>
  [...rules].map(([key, on]) => `${on ? "+" : "-"}${key.replaceAll(/[%,]/g, encodeURIComponent)}`).join(",");

export function parseRules(text: string): Rules {
  const rules = new Map<string, boolean>();
  for (const part of text === "" ? [] : text.split(",")) {
    try {
      if (/^[+-]/.test(part)) rules.set(decodeURIComponent(part.slice(1)), part.startsWith("+"));
    } catch {
      // Half an escape is no rule.
    }
  }
  return rules;
}

/** Only this type, and its sisters of the same type. */
export const onlyType = (root: TypeNode, type: number): Rules => {
  const key = keyOf(root, type);
  return key === null
    ? new Map()
    : new Map([
        ["", false],
        [key, true],
      ]);
};

function keyOf(node: TypeNode, type: number): string | null {
  if (node.type === type) return node.key;
  for (const kid of node.kids) {
    const key = keyOf(kid, type);
    if (key !== null) return key;
  }
  return null;
}

/** Whether the box above a key lets it through. */
function inherited(rules: Rules, key: string): boolean {
  if (key === "") return true;
  const above = key.endsWith("::") ? key.slice(0, -2) : key.includes("::") ? key.slice(0, key.lastIndexOf("::")) : "";
  return rules.get(above) ?? inherited(rules, above);
}

/** Checks a box, or takes its check away: all below it follows. */
export function setBox(rules: Rules, key: string, on: boolean): Rules {
  const inside = (other: string) => key === "" || other === key || other.startsWith(`${key}::`);
  const next = new Map([...rules].filter(([other]) => !inside(other)));
  if (inherited(next, key) !== on) next.set(key, on);
  return next;
}

/** One byte for each type: 1 is shown. Types without a box are. */
export function shownTypes(root: TypeNode, rules: Rules, count: number): Uint8Array {
  const shown = new Uint8Array(count).fill(1);
  const walk = (node: TypeNode, above: boolean) => {
    const on = rules.get(node.key) ?? above;
    if (node.type !== null) shown[node.type] = on ? 1 : 0;
    for (const kid of node.kids) walk(kid, on);
  };
  walk(root, true);
  return shown;
}

export interface TypeLine {
  readonly key: string;
  readonly depth: number;
  readonly indent: number;
  readonly open: boolean;
  readonly leaf: boolean;
  readonly node: TypeNode;
  readonly box: "all" | "none" | "some";
}

/** The lines of the tree that are open; `flipped` are those that are not as at first: the root open, others closed. */
export function typeLines(root: TypeNode, shown: Uint8Array, flipped: ReadonlySet<string>): TypeLine[] {
  const passing = new Map<TypeNode, number>();
  const add = (node: TypeNode): number => {
    const own = node.type !== null ? shown[node.type] : 0;
    const sum = node.kids.reduce((all, kid) => all + add(kid), own);
    passing.set(node, sum);
    return sum;
  };
  add(root);
  const lines: TypeLine[] = [];
  const walk = (node: TypeNode, depth: number) => {
    const on = passing.get(node)!;
    const open = node.kids.length > 0 && (depth === 0) !== flipped.has(node.key);
    const box = on === 0 ? "none" : on === node.types ? "all" : "some";
    lines.push({ key: node.key, depth: depth + 1, indent: depth, open, leaf: node.kids.length === 0, node, box });
    if (open) for (const kid of node.kids) walk(kid, depth + 1);
  };
  walk(root, 0);
  return lines;
}
