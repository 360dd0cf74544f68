// An origin whose answers are known for each target, version and variant, and clients that mix what confuses caches:
// ranges, conditions, writes that change the answer, clients that go away, answers that break off. Every byte that comes
// back is compared. Prints what it counted; ends with 1 where a byte was wrong.
// usage: session.mjs ORIGIN_PORT PROXY_PORT REQUESTS

import http from "node:http";
import { answer } from "../answer.mjs";

const [originPort, proxyPort, requests] = process.argv.slice(2).map(Number);
const below = (n) => Math.floor(Math.random() * n);
const versions = new Map();
const version = (target) => versions.get(target) ?? 0;

function body(target, of) {
  let text = `${target}:${of}:`;
  while (text.length < 200 + ((target * 977) % 9000)) text += text;
  return text;
}

const CONTROLS = ["max-age=60", "max-age=0", "max-age=1", "no-store", "max-age=0, stale-while-revalidate=50", "max-age=60"];

const origin = http.createServer((request, response) => {
  const target = Number(request.url.slice(2));
  if (request.method === "POST") {
    versions.set(target, version(target) + 1);
    response.setHeader("cache-control", "no-store");
    return response.end("done");
  }
  const whole = Buffer.from(body(target, version(target)));
  const tag = `"${target}-${version(target)}"`;
  response.setHeader("cache-control", CONTROLS[target % CONTROLS.length]);
  if (target % 5 === 0) response.setHeader("vary", "x-client");
  answer(request, response, whole, tag, 20);
});

const counts = { requests: 0, compared: 0, wrong: 0, cut: 0, failed: 0 };
const agent = new http.Agent({ keepAlive: true, maxSockets: 48 });

function ask() {
  if (counts.requests === requests) return Promise.resolve();
  counts.requests++;
  const [target, what, headers] = [below(60), below(20), {}];
  let method = "GET";
  if (what < 5) headers.range = `bytes=${below(100)}-${below(2) ? 100 + below(100) : ""}`;
  if (what === 6) method = "HEAD";
  if (what === 7 && below(4) === 0) method = "POST";
  if (what === 8) headers["cache-control"] = "no-cache";
  if (what === 9) headers["x-forwarded-host"] = "elsewhere";
  if (target % 5 === 0) headers["x-client"] = String(below(80));
  return new Promise((done) => {
    const sent = http.request({ port: proxyPort, path: `/?${target}`, method, headers, agent }, (response) => {
      const parts = [];
      if (below(15) === 0) setTimeout(() => sent.destroy(), below(3));
      response.on("data", (data) => parts.push(data));
      response.on("error", () => {});
      response.on("close", () => {
        if (!response.complete) counts.cut++;
        compare(method, target, response, Buffer.concat(parts).toString());
        done();
      });
    });
    sent.on("error", () => {
      if (sent.res === null || sent.res === undefined) {
        counts.failed++;
        done();
      }
    });
    sent.end();
  }).then(ask);
}

function compare(method, target, response, got) {
  if (method !== "GET" || ![200, 206].includes(response.statusCode)) return;
  counts.compared++;
  const from = response.statusCode === 206 ? Number(/bytes (\d+)/.exec(response.headers["content-range"])[1]) : 0;
  // The version that the head tells, whichever that is: head and bytes have to be of one answer.
  const want = body(target, Number(/-(\d+)"/.exec(response.headers.etag)[1]));
  const whole = response.complete && response.statusCode === 200;
  if (!want.startsWith(got, from) || (whole && want.length !== got.length)) {
    counts.wrong++;
    console.error("wrong", target, response.statusCode, JSON.stringify(response.headers), got.length, want.length);
  }
}

origin.listen(originPort, "127.0.0.1", async () => {
  await Promise.all(Array.from({ length: 48 }, ask));
  console.log(JSON.stringify(counts));
  process.exit(counts.wrong === 0 ? 0 : 1);
});
