// Files as a tree of folders, and processes as a tree of parents. Pure.

import { type HierarchyNode, hierarchy } from "d3-hierarchy";

/** Of a file's figures those that say what of it was any use. */
export interface Used {
  readonly kind: string;
  readonly filled: number;
  readonly asked: number;
  /** By page, from a start without read-ahead; `null`: there was none. */
  readonly needed: number | null;
}

/** What a start needs of a file; where that is not known, at least what it asked for. */
export const usefulOf = (file: Used): number => file.needed ?? file.asked;

/** What came in without being any use; `null` where that cannot be seen: nobody asks for metadata by page. */
export function wasteOf(file: Used): number | null {
  return file.needed === null && file.kind === "metadata" ? null : Math.max(0, file.filled - usefulOf(file));
}

/** Figures that add up along the tree. */
export interface FileFigures {
  /** Line of the report's files. */
  readonly line: number;
  readonly path: string;
  readonly size: number;
  readonly filled: number;
  /** What the start needs of it; what it asked for where that is not known. */
  readonly useful: number;
  /** Filled, but of no use; 0 for metadata, of which that may not be known. */
  readonly waste: number;
  readonly bytes: number;
  readonly requests: number;
  /** Seconds of the time in which requests were in flight: its fair share. */
  readonly waiting: number;
  readonly extents: number | null;
}

/** A folder or a file. Folders with a single folder inside are written as one: `/usr/lib/`. */
export interface Folder {
  readonly name: string;
  /** The whole path: what the folder is known by. */
  readonly path: string;
  readonly file: FileFigures | null;
  readonly children: Folder[];
}

export type FolderNode = HierarchyNode<Folder> & {
  sums?: Record<SumKey, number>;
};
export const SUM_KEYS = ["size", "filled", "useful", "waste", "bytes", "requests", "waiting"] as const;
export type SumKey = (typeof SUM_KEYS)[number];

interface Growing {
  readonly name: string;
  readonly path: string;
  file: FileFigures | null;
  readonly children: Map<string, Growing>;
}

/** Lines of one path that stand beside each other. */
const MOST_ALIKE = 3;

/** The tree of some files, each node with its sums; children by `by`, the largest first. */
export function folderTree(files: readonly FileFigures[], by: SumKey): FolderNode {
  const root: Growing = { name: "", path: "", file: null, children: new Map() };
  const alike = new Map<string, number>();
  for (const { path } of files) alike.set(path, (alike.get(path) ?? 0) + 1);
  for (const file of files) {
    let node = root;
    const parts = file.path.startsWith("/") ? file.path.split("/").slice(1) : [file.path];
    // A browser makes hundreds of memory files of one name: they get a folder of that name.
    if ((alike.get(file.path) ?? 0) > MOST_ALIKE) parts.push(parts[parts.length - 1]);
    parts.forEach((part, depth) => {
      const last = depth === parts.length - 1;
      // Two lines may have one path (a device's metadata, a deleted file): each keeps its own leaf.
      const key = last ? `${part}\0${file.line}` : part;
      let child = node.children.get(key);
      if (child === undefined) {
        const path = file.path.startsWith("/") ? `${node.path}/${part}` : part;
        child = { name: part, path, file: null, children: new Map() };
        node.children.set(key, child);
      }
      if (last) child.file = file;
      node = child;
    });
  }
  const tree = hierarchy(folded(root, true)) as FolderNode;
  for (const key of SUM_KEYS) {
    tree.sum((folder) => folder.file?.[key] ?? 0);
    tree.each((node) => {
      const folder = node as FolderNode;
      folder.sums ??= {} as Record<SumKey, number>;
      folder.sums[key] = node.value ?? 0;
    });
  }
  return tree.sort(
    (a, b) =>
      ((b as FolderNode).sums?.[by] ?? 0) - ((a as FolderNode).sums?.[by] ?? 0) ||
      a.data.path.localeCompare(b.data.path),
  ) as FolderNode;
}

function folded(node: Growing, root = false): Folder {
  const children = [...node.children.values()];
  if (!root && node.file === null && children.length === 1 && children[0].file === null) {
    const only = folded(children[0]);
    return { ...only, name: `${node.name}/${only.name}` };
  }
  return { name: node.name, path: node.path, file: node.file, children: children.map((child) => folded(child)) };
}

/** A process with its depth in the tree. */
export interface ProcessLine {
  /** Line of the report's processes. */
  readonly line: number;
  readonly depth: number;
}

/** Processes in the order of the tree: children by start below their parent; each once, also in a circle of parents. */
export function processTree(
  processes: readonly { readonly pid: number; readonly parent: number; readonly start_ns: number }[],
): ProcessLine[] {
  const numbers = processes
    .map((_, line) => line)
    .sort((a, b) => processes[a].start_ns - processes[b].start_ns || a - b);
  // A process number may be given twice: the parent is the last one that had it before the child began.
  const parentOf = numbers.map((line) => {
    const known = numbers.filter(
      (other) =>
        other !== line &&
        processes[other].pid === processes[line].parent &&
        processes[other].start_ns <= processes[line].start_ns,
    );
    return known[known.length - 1] ?? -1;
  });
  const children = new Map<number, number[]>();
  numbers.forEach((line, i) => {
    children.set(parentOf[i], [...(children.get(parentOf[i]) ?? []), line]);
  });
  const lines: ProcessLine[] = [];
  const seen = new Set<number>();
  const visit = (line: number, depth: number) => {
    if (seen.has(line)) return;
    seen.add(line);
    lines.push({ line, depth });
    for (const child of children.get(line) ?? []) visit(child, depth + 1);
  };
  for (const line of children.get(-1) ?? []) visit(line, 0);
  for (const line of numbers) visit(line, 0);
  return lines;
}
