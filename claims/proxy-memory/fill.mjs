// Asks a proxy for answers of 1 kB of an origin of its own, from one number to another, 16 at a time, and then for some of
// them again, which the origin must not be asked for.
// usage: fill.mjs PROXY_PORT FROM TO
import http from "node:http";

const [port, from, to] = process.argv.slice(2).map(Number);
let served = 0;
const origin = http.createServer((request, response) => {
  served += 1;
  const body = Buffer.alloc(1000, request.url);
  response.writeHead(200, { "content-length": body.length, "cache-control": "max-age=86400" });
  response.end(body);
});
// The same address each time: it is part of what an entry is kept under.
await new Promise((done) => origin.listen(18075, "127.0.0.1", done));
const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });

const ask = (number) =>
  new Promise((done, fail) => {
    const path = `http://127.0.0.1:18075/a/rather/long/path/of/an/entry/${number}.png`;
    const request = http.get({ port, path, agent, host: "127.0.0.1", headers: { host: "127.0.0.1:18075" } }, (answer) => {
      let bytes = 0;
      answer.on("data", (data) => (bytes += data.length));
      answer.on("end", () => (answer.statusCode === 200 && bytes === 1000 ? done() : fail(new Error(answer.statusCode))));
    });
    request.on("error", fail);
  });

async function all(numbers) {
  const next = numbers[Symbol.iterator]();
  const one = async () => {
    for (let at = next.next(); !at.done; at = next.next()) await ask(at.value);
  };
  await Promise.all(Array.from({ length: 16 }, one));
}

await all(Array.from({ length: to - from }, (_, at) => from + at));
if (served !== to - from) throw new Error(`the origin was asked ${served} times for ${to - from} answers`);
const again = Array.from({ length: 1000 }, (_, at) => from + Math.floor((at * (to - from)) / 1000));
const before = served;
await all(again);
if (served - before > 10) throw new Error(`${served - before} of 1,000 entries are not kept`);
agent.destroy();
origin.close();
