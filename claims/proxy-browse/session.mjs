// An origin whose texts are known for each target and version, a page that asks for them in every way that a browser has
// and compares what comes, and a curl that does the same. Prints a line of counts for each client; ends with 1 where a
// byte was wrong, or a client told of nothing.
// usage: session.mjs ORIGIN_PORT PROXY_PORT SECONDS

import { execFile } from "node:child_process";
import http from "node:http";
import { answer } from "../answer.mjs";

const [originPort, proxyPort, seconds] = process.argv.slice(2).map(Number);
const versions = new Map();
const version = (target) => versions.get(target) ?? 0;
const below = (n) => Math.floor(Math.random() * n);

/** Runs in browsers too. */
function body(target, of) {
  const piece = `${target}:${of}:`;
  const length = 300 + ((target * 7919) % 40 === 0 ? 400000 : (target * 977) % 30000);
  return piece.repeat(Math.ceil(length / piece.length)).slice(0, length);
}

/** Runs in browsers too: what is wrong of an answer, or null. */
function wrong(target, status, tag, range, got) {
  if (status !== 200 && status !== 206) return null;
  const of = /-(\d+)"/.exec(tag ?? "")?.[1];
  if (of === undefined) return `${target}: no version`;
  const whole = body(target, of);
  if (status === 200) return got === whole ? null : `${target}: version ${of}, ${got.length} of ${whole.length}`;
  const [, first, last, length] = /bytes (\d+)-(\d+)\/(\d+)/.exec(range).map(Number);
  return length === whole.length && got === whole.slice(first, last + 1) ? null : `${target}: ${range} of version ${of}`;
}

/** The page's script. */
async function browse() {
  const below = (n) => Math.floor(Math.random() * n);
  const name = location.search.slice(1);
  const counts = { asked: 0, compared: 0, frames: 0, wrong: 0, failed: 0 };
  const modes = ["default", "default", "no-store", "reload", "no-cache", "force-cache"];
  const told = [];
  async function one() {
    const [target, what] = [below(300), below(16)];
    const options = { cache: modes[below(modes.length)], headers: {} };
    if (what < 3) options.headers.range = `bytes=${below(100)}-${below(2) ? 100 + below(150) : ""}`;
    if (what === 3 && below(3) === 0) options.method = "POST";
    if (what === 4) options.method = "HEAD";
    if (target % 5 === 0) options.headers["x-client"] = String(below(4));
    const leaving = new AbortController();
    if (what === 5) setTimeout(() => leaving.abort(), below(20));
    counts.asked++;
    try {
      const response = await fetch(`/text?${target}`, { ...options, signal: leaving.signal });
      const got = await response.text();
      if ((options.method ?? "GET") !== "GET") return;
      counts.compared++;
      const fields = response.headers;
      const is = wrong(target, response.status, fields.get("etag"), fields.get("content-range"), got);
      if (is) told.push(`${is} (${JSON.stringify(options)})`);
      if (is) counts.wrong++;
    } catch {
      counts.failed++;
    }
  }
  function frame() {
    const target = below(300);
    const element = document.createElement("iframe");
    element.src = `/text?${target}`;
    return new Promise((done) => {
      // A frame whose text broke off may never be told to be loaded.
      const late = setTimeout(() => (counts.failed++, element.remove(), done()), 5000);
      element.onload = () => {
        clearTimeout(late);
        const got = element.contentDocument?.body?.innerText ?? "";
        const of = /^\d+:(\d+):/.exec(got)?.[1];
        // A page of the browser's own says that the proxy was away.
        if (of === undefined) counts.failed++;
        else if (got === body(target, of)) counts.frames++;
        else told.push(`${target}: version ${of} in a frame, ${got.length}`) && counts.wrong++;
        element.remove();
        done();
      };
      document.body.append(element);
    });
  }
  for (;;) {
    await Promise.all([...Array.from({ length: 12 }, one), frame()]);
    const text = JSON.stringify({ name, counts, told: told.splice(0) });
    await fetch("/told", { method: "POST", body: text }).catch(() => {});
    await new Promise((done) => setTimeout(done, 100));
  }
}

const CONTROLS = ["max-age=60", "max-age=0", "max-age=1", "no-store", "max-age=0, stale-while-revalidate=50", "max-age=600"];
const clients = {};
let faults = 0;

function told(report) {
  for (const line of report.told) {
    faults++;
    if (faults < 50) console.log(`wrong: ${report.name} ${line}`);
  }
  clients[report.name] = report.counts;
}

const origin = http.createServer((request, response) => {
  if (request.url === "/told") {
    let text = "";
    request.on("data", (data) => (text += data));
    request.on("end", () => (told(JSON.parse(text)), response.end()));
    return;
  }
  if (!request.url.startsWith("/text?")) {
    response.setHeader("content-type", "text/html");
    response.setHeader("cache-control", "no-store");
    return response.end(`<!doctype html><title>session</title><body><script>${body}${wrong}(${browse})()</script>`);
  }
  const target = Number(request.url.slice(6));
  if (request.method === "POST") {
    versions.set(target, version(target) + 1);
    response.setHeader("cache-control", "no-store");
    return response.end("done");
  }
  const [whole, tag] = [Buffer.from(body(target, version(target))), `"${target}-${version(target)}"`];
  response.setHeader("content-type", "text/plain");
  response.setHeader("cache-control", CONTROLS[target % CONTROLS.length]);
  if (target % 5 === 0) response.setHeader("vary", "x-client");
  answer(request, response, whole, tag, 30);
});

const curl = { asked: 0, compared: 0, wrong: 0, failed: 0 };
function ask() {
  const target = below(300);
  const words = ["-s", "-D", "-", "--max-time", "30", "-x", `http://127.0.0.1:${proxyPort}`, `http://127.0.0.1:${originPort}/text?${target}`];
  const what = below(12);
  if (what < 3) words.push("-r", `${below(100)}-${below(2) ? 100 + below(150) : ""}`);
  if (what === 3) words.push("-H", "Cache-Control: no-cache");
  if (what === 4) words.push("-H", 'If-None-Match: "0-0"');
  if (target % 5 === 0) words.push("-H", `X-Client: ${below(4)}`);
  if (below(6) === 0) words.push("--http1.0");
  curl.asked++;
  return new Promise((done) => {
    execFile("curl", words, { maxBuffer: 1 << 24 }, (error, said) => {
      const end = said.indexOf("\r\n\r\n");
      if (error || end < 0) {
        curl.failed++;
      } else {
        curl.compared++;
        const [head, got] = [said.slice(0, end), said.slice(end + 4)];
        const field = (name) => new RegExp(`^${name}: (.*?)\\r?$`, "im").exec(head)?.[1];
        const is = wrong(target, Number(head.split(" ")[1]), field("etag"), field("content-range"), got);
        if (is) curl.wrong++;
        told({ name: "curl", counts: curl, told: is ? [`${is} (${words.join(" ")})`] : [] });
      }
      done();
    });
  });
}

origin.listen(originPort, "127.0.0.1", async () => {
  console.log("ready");
  const end = Date.now() + seconds * 1000;
  while (Date.now() < end) {
    await Promise.all([ask(), ask()]);
    await new Promise((done) => setTimeout(done, 100));
  }
  for (const [name, counts] of Object.entries(clients)) console.log(name, JSON.stringify(counts));
  const all = ["chromium", "curl", "firefox"].every((name) => clients[name]?.compared > 0);
  process.exit(faults === 0 && all ? 0 : 1);
});
