// Makes the pages that the end-to-end tests open, into a folder that goes again:
// - pages of heap recordings and memory reports (VIEWER_HEAP_PAGES names a folder that has them already);
// - pages of made-up recordings, with the `made` example of app/view (VIEWER_PAGES names a folder that has them
// already);
// - pages of real cold starts, recorded here: NAME.html (`thaw report -o`) beside NAME.json (`thaw report --json`).
//   THAW_REPORTS names a folder that has them already; else those of `make demo` are taken, if there are any.
// THAW_BUILT says that cargo's tests have just built thaw and the example. Without a browser, or without what a
// recording takes, tests are skipped with the reason.

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  export interface ProvidedContext {
    /** Folder of made-up pages. */
    pages: string;
    /** Folder of real ones. */
    reports: string;
    /** Real ones that could not be made, with the reason. */
    missing: readonly string[];
    /** Folder of heap and memory pages, with what they were made of. */
    heap: string;
    /** Why it has no heap recordings; empty: it has them. */
    noHeap: string;
    /** Why nothing can be tested; empty: it can. */
    cannot: string;
  }
}

/** App presets that are recorded: those of the seed's talk. */
const APPS = ["firefox-esr", "chromium"];
const ROOT = join(import.meta.dirname, "../../..");
const BUILT = join(ROOT, "target/debug");
const THAW = join(BUILT, "thaw");

export default function setup(project: TestProject): (() => void) | undefined {
  const browser = process.env.CHROMIUM ?? "/usr/bin/chromium";
  project.provide("pages", "");
  project.provide("reports", "");
  project.provide("missing", []);
  project.provide("heap", "");
  project.provide("noHeap", "");
  project.provide("cannot", "");
  if (!existsSync(browser)) {
    project.provide("cannot", `no browser at ${browser}`);
    return undefined;
  }
  const folder = mkdtempSync(join(tmpdir(), "thaw-pages-"));
  const clean = () => rmSync(folder, { recursive: true });
  try {
    project.provide("pages", process.env.VIEWER_PAGES ?? made(join(folder, "made")));
    const heap = process.env.VIEWER_HEAP_PAGES ?? join(folder, "heap");
    project.provide("heap", heap);
    project.provide("noHeap", process.env.VIEWER_HEAP_PAGES === undefined ? heapAndMemory(heap) : "");
    const { reports, missing } = real(folder);
    project.provide("reports", reports);
    project.provide("missing", missing);
  } catch (error) {
    clean();
    throw error;
  }
  return clean;
}

function made(folder: string): string {
  build("view", "--example", "made");
  execFileSync(join(BUILT, "examples/made"), [folder], { stdio: ["ignore", "ignore", "inherit"] });
  return folder;
}

/** Two versions of a program that takes memory, says so by a file, and gives it back. */
const COURSE = `schema = "thaw.course/1"
iterations = 3
${["1.0", "a later version with a long name"]
  .map(
    (name, index) => `[[version]]
name = "${name}"
command = ["python3", "-c", """
import signal, time
def free(*_):
    global block
    block = None
    open("DIR/freed", "w").close()
signal.signal(signal.SIGUSR1, free)
block = b"x" * (${20 + 20 * index} << 20)
open("DIR/ready", "w").close()
while True: time.sleep(0.01)
"""]
`,
  )
  .join("")}[[step]]
until = "test -e DIR/ready"
[[step]]
mark = "loaded"
[[step]]
shell = "rm DIR/ready; kill -USR1 $THAW_PID; until test -e DIR/freed; do sleep 0.01; done; rm DIR/freed"
[[step]]
mark = "after <b>it</b>"
`;

/** Pages of small programs' heaps, of reports of Firefox, and of watches. Returns why there are no heaps. */
function heapAndMemory(folder: string): string {
  mkdirSync(folder);
  build("thawlab");
  // The guest of `thaw heap` has a profile of its own, which no build of the workspace makes.
  execFileSync(join(ROOT, "dev/agent"), { stdio: ["ignore", "ignore", "inherit"] });
  const thaw = (...words: string[]) => execFileSync(THAW, words, { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  const reports = ["start", "later"].map((name) => join(ROOT, `fixtures/memory/firefox/${name}.json.gz`));
  thaw("memory", "show", reports[0], "--html", "report.html");
  thaw("memory", "diff", ...reports, "--html", "reports.html");
  thaw(
    "memory",
    "watch",
    "-o",
    "w.memory",
    "--interval",
    "50ms",
    "--",
    "sh",
    "-c",
    `sleep 0.3; ${THAW} memory mark "a <b>mark</b>" -f w.memory; sleep 0.3`,
  );
  thaw("memory", "show", "w.memory", "--html", "watch.html");
  thaw("memory", "diff", "w.memory", "w.memory", "--html", "watches.html");
  writeFileSync(join(folder, "course.toml"), COURSE.replaceAll("DIR", folder));
  thaw("memory", "course", "course.toml", "-o", "course", "--html", "course.html");
  for (const name of ["modes", "growth", "clownshoes"]) {
    const built = spawnSync(
      "cc",
      [
        "-O1",
        "-g",
        "-w",
        "-fno-builtin",
        "-fno-optimize-sibling-calls",
        "-o",
        join(folder, name),
        join(ROOT, `fixtures/heap/${name}.c`),
        "-lpthread",
      ],
      { encoding: "utf8" },
    );
    const ran =
      built.status === 0
        ? spawnSync(THAW, ["heap", "run", "-o", `${name}.heap`, "--", join(folder, name)], {
            cwd: folder,
            encoding: "utf8",
          })
        : built;
    if (ran.status !== 0)
      return `${name} was not recorded: ${ran.stderr?.trim().split("\n").at(-1) ?? String(ran.error)}`;
    thaw("heap", "report", `${name}.heap`, "--html", `${name}.html`);
  }
  thaw("heap", "diff", "modes.heap", "growth.heap", "--html", "change.html");
  return "";
}

/** THAW_BUILT: cargo's tests have built the whole workspace. For one package alone cargo would build much anew, since
 * the others' features are missing then. */
function build(...words: string[]): void {
  if (process.env.THAW_BUILT !== undefined) return;
  execFileSync("cargo", ["build", "--locked", "--quiet", "-p", ...words], {
    cwd: ROOT,
    stdio: ["ignore", "ignore", "inherit"],
  });
}

function real(folder: string): { reports: string; missing: string[] } {
  const has = (path: string) =>
    existsSync(path) &&
    readdirSync(path).some((name) => name.endsWith(".html") && existsSync(join(path, name.replace(/html$/, "json"))));
  const there = process.env.THAW_REPORTS ?? join(ROOT, "demo");
  if (has(there)) return { reports: there, missing: [] };
  if (process.getuid?.() !== 0)
    return {
      reports: "",
      missing: ["a cold start can only be recorded as root (or give THAW_REPORTS, or run make demo)"],
    };
  build("thawlab");
  return { reports: folder, missing: APPS.flatMap((app) => record(folder, app) ?? []) };
}

/** Exit codes of thaw: the machine cannot do it; the program failed. */
const [CANNOT, PROGRAM_FAILED] = [3, 4];

/** Records a cold start and writes its page and document. Why not, if this machine cannot. */
function record(folder: string, app: string): string | null {
  const recording = join(folder, `${app}.thaw`);
  const recorded = spawnSync(
    THAW,
    ["record", "-o", recording, "--app", app, "--state", "cold", "--runs", "1", "--trace-runs", "1"],
    { encoding: "utf8" },
  );
  const reason = `${app} was not recorded: ${recorded.stderr?.trim().split("\n").at(-1) ?? String(recorded.error)}`;
  if (recorded.status === CANNOT || recorded.status === PROGRAM_FAILED) return reason;
  if (recorded.status !== 0) throw new Error(`${reason}\n${recorded.stderr}`);
  execFileSync(THAW, ["report", recording, "-o", join(folder, `${app}.html`)], { stdio: "ignore" });
  writeFileSync(
    join(folder, `${app}.json`),
    execFileSync(THAW, ["report", recording, "--json"], { maxBuffer: 1 << 28 }),
  );
  return null;
}
