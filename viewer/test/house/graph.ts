// Which module imports which, and what circles that makes.

import { readdirSync } from "node:fs";
import { build, type Plugin } from "esbuild";

/** Modules by path below a folder, each with those that it imports when it runs; imports of types alone are none. */
export type Graph = ReadonlyMap<string, readonly string[]>;

/** What the bundle does with a worker's text: here it is none of the modules that import each other. */
const WORKERS: Plugin = {
  name: "workers",
  setup: (bundler) => {
    bundler.onResolve({ filter: /^worker:/ }, ({ path }) => ({ path, external: true }));
  },
};

/** Paths below `folder` of all modules that run: those that only declare types for others' files are none. */
export const modulesOf = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) => /(?<!\.d)\.tsx?$/.test(path));

/** The graph of all modules below `folder`, as the bundler reads them. */
export async function graphOf(folder: string): Promise<Graph> {
  const modules = modulesOf(folder);
  const { metafile } = await build({
    absWorkingDir: folder,
    entryPoints: modules,
    outdir: "unwritten",
    bundle: true,
    write: false,
    metafile: true,
    packages: "external",
    loader: { ".css": "empty" },
    jsx: "automatic",
    jsxImportSource: "preact",
    logLevel: "silent",
    plugins: [WORKERS],
  });
  return new Map(
    Object.entries(metafile.inputs)
      .filter(([path]) => modules.includes(path))
      .map(([path, { imports }]) => [path, imports.map((it) => it.path).filter((to) => modules.includes(to))]),
  );
}

/** Each circle of modules once: all that can be reached from each other. */
export function circles(graph: Graph): string[][] {
  const reached = new Map([...graph.keys()].map((from) => [from, reachable(graph, from)]));
  const together = (from: string) =>
    [...graph.keys()].filter((to) => reached.get(from)?.has(to) && reached.get(to)?.has(from)).sort();
  const found = [...graph.keys()].map(together).filter((circle) => circle.length > 0);
  return [...new Map(found.map((circle) => [circle.join(" "), circle])).values()];
}

/** What a module imports, and what that imports; itself only if it comes back to it. */
function reachable(graph: Graph, from: string): ReadonlySet<string> {
  const seen = new Set<string>();
  const visit = (module: string) => {
    for (const next of graph.get(module) ?? []) {
      if (seen.has(next)) continue;
      seen.add(next);
      visit(next);
    }
  };
  visit(from);
  return seen;
}
