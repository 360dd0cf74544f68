// Bundles the viewer into dist/: viewer.js, viewer.css, and the hashes that the page's policy names.
// `node build.mjs --check FOLDER` writes elsewhere, so that a test can compare.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const at = process.argv.indexOf("--check");
const out = at > 0 ? process.argv[at + 1] : join(here, "dist");
mkdirSync(out, { recursive: true });
const common = {
  absWorkingDir: here,
  bundle: true,
  minify: process.env.PLAIN === undefined,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
};
/** `worker:./file.ts` is that file, bundled, as text: the page starts its worker from it. */
const workers = {
  name: "workers",
  setup(bundler) {
    bundler.onResolve({ filter: /^worker:/ }, ({ path, resolveDir }) => ({
      path: join(resolveDir, path.slice("worker:".length)),
      namespace: "worker",
    }));
    bundler.onLoad({ filter: /.*/, namespace: "worker" }, async ({ path }) => {
      const { outputFiles } = await build({ ...common, entryPoints: [path], write: false });
      return { contents: outputFiles[0].text, loader: "text" };
    });
  },
};
await build({
  ...common,
  entryPoints: { viewer: join(here, "src/page.ts") },
  outdir: out,
  jsx: "automatic",
  jsxImportSource: "preact",
  plugins: [workers],
});
// The page embeds both without the last line break; so are they hashed.
const hash = (name) => {
  const text = readFileSync(join(out, name), "utf8").trimEnd();
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
};
writeFileSync(join(out, "hashes.txt"), `${hash("viewer.js")}\n${hash("viewer.css")}\n`);
