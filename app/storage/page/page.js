// The page: which areas there are, the keys of one, changes as they come, and what calls cost beside localStorage.

import { open } from "./storage.js";

const at = (id) => document.getElementById(id);
const ROWS = 200;
const LINES = 50;
const number = new Intl.NumberFormat("en");
/** Control characters and lone surrogates are seen as what they are. */
const seen = (text) => {
  const cut = text.length > 120 ? `${text.slice(0, 120)}\u2026` : text;
  return cut.replace(/[\u0000-\u001f\u007f-\u009f]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
};

function row(...cells) {
  const made = document.createElement("tr");
  for (const [what, name] of cells) {
    const cell = made.insertCell();
    cell.className = name ?? "";
    cell.append(what);
  }
  return made;
}

function button(text, label, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.setAttribute("aria-label", label);
  made.onclick = act;
  return made;
}

let chosen = { origin: "https://a.example", partition: "" };
let area;
let changes = 0;

function trouble(why) {
  at("trouble").hidden = !why;
  at("trouble").textContent = why;
}

function live(text) {
  if (changes++ === 0) at("live").replaceChildren();
  const line = document.createElement("li");
  line.textContent = `${new Date().toTimeString().slice(0, 8)}  ${text}`;
  at("live").prepend(line);
  while (at("live").children.length > LINES) at("live").lastChild.remove();
}

let asked;
/** What many changes ask for is drawn once. */
function draw() {
  asked ??= requestAnimationFrame(() => {
    asked = undefined;
    const { storage } = area;
    const rows = [];
    for (let index = 0; index < Math.min(ROWS, storage.length); index++) {
      const key = storage.key(index);
      const value = storage.getItem(key);
      const remove = button("\u00d7", `Remove ${seen(key)}`, () => {
        storage.removeItem(key);
        draw();
      });
      rows.push(row([seen(key), "mono"], [seen(value), "mono"], [number.format(value.length), "n"], [remove]));
    }
    at("keys").replaceChildren(...rows);
    at("more").textContent = storage.length > ROWS ? `${number.format(storage.length - ROWS)} more keys.` : "";
    state();
  });
}

function state() {
  const { storage, used, quota, pending } = area;
  at("h-keys").textContent = `Keys of ${chosen.origin}${chosen.partition ? ` under ${chosen.partition}` : ""}`;
  const waits = pending();
  at("state").textContent = `${number.format(storage.length)} keys, ${number.format(used())} of ${number.format(quota())} bytes used; ${waits === 0 ? "the library has every change" : `${number.format(waits)} changes on their way to the library`}.`;
}

async function areas() {
  const answer = await fetch("api/areas").catch(() => null);
  if (!answer?.ok) return trouble(answer ? (await answer.text()).trim() : "The server does not answer: it has ended, or it is another one now.");
  const { directory, areas } = await answer.json();
  at("directory").textContent = directory ?? "in memory; nothing is kept";
  const count = (it) => (it === null ? "" : number.format(it));
  at("areas").replaceChildren(
    ...areas.map((it) => {
      const pick = button(it.origin, `Show ${it.origin}`, () => choose(it));
      const made = row([pick], [it.partition], [count(it.keys), "n"], [count(it.used), "n"], [count(it.file_bytes), "n"]);
      if (it.origin === chosen.origin && it.partition === chosen.partition) made.setAttribute("aria-current", "true");
      return made;
    }),
  );
}

async function choose({ origin, partition }) {
  await area?.close();
  chosen = { origin, partition };
  area = await open({
    ...chosen,
    ontrouble: trouble,
    onchange: ({ say }) => {
      if (say === "made" || say === "all") trouble("");
      draw();
    },
  });
  draw();
  await areas();
}

addEventListener("storage", ({ key, oldValue, newValue, storageArea }) => {
  if (storageArea !== area?.storage) return;
  const said = (it) => (it === null ? "nothing" : `"${seen(it)}"`);
  live(key === null ? "all keys are gone" : `${seen(key)}: ${said(oldValue)} \u2192 ${said(newValue)}`);
});

at("set").onsubmit = (event) => {
  event.preventDefault();
  try {
    area.storage.setItem(at("key").value, at("value").value);
    trouble("");
  } catch (error) {
    trouble(`${error.name}: ${error.message}`);
  }
  draw();
};
at("clear").onclick = () => {
  area.storage.clear();
  draw();
};
at("flush").onclick = async () => {
  const from = performance.now();
  await area.flush().then(
    () => live(`flushed: on the medium after ${(performance.now() - from).toFixed(1)} ms`),
    (error) => trouble(error.message),
  );
  await areas();
};
at("new").onsubmit = (event) => {
  event.preventDefault();
  choose({ origin: at("origin").value, partition: "" });
};

const CALLS = 20_000;
const ROUNDS = 5;

/** Nanoseconds of a call, round for round. */
async function measure() {
  at("measure").disabled = true;
  const own = await open({ origin: "https://measured.example", ontrouble: trouble });
  const keys = Array.from({ length: 100 }, (_, it) => `thaw measures ${it} `.padEnd(100, "k"));
  const values = Array.from({ length: 101 }, (_, it) => `${it}`.padEnd(100, "v"));
  const sides = { browser: localStorage, ours: own.storage };
  const took = { set: { browser: [], ours: [] }, get: { browser: [], ours: [] } };
  let length = 0;
  for (let round = 0; round < ROUNDS; round++)
    for (const [name, storage] of Object.entries(sides)) {
      let from = performance.now();
      for (let call = 0; call < CALLS; call++) storage.setItem(keys[call % 100], values[(call + round) % 101]);
      took.set[name].push(((performance.now() - from) * 1e6) / CALLS);
      from = performance.now();
      for (let call = 0; call < CALLS; call++) length += storage.getItem(keys[call % 100]).length;
      took.get[name].push(((performance.now() - from) * 1e6) / CALLS);
      await new Promise((done) => setTimeout(done));
    }
  if (length !== 2 * ROUNDS * CALLS * 100) throw new Error("a value did not come back whole");
  for (const storage of Object.values(sides)) for (const key of keys) storage.removeItem(key);
  await own.flush();
  await own.close();
  const said = (all) => {
    const sorted = all.toSorted((a, b) => a - b).map((it) => number.format(Math.round(it)));
    return `${sorted[ROUNDS >> 1]} ns (${sorted[0]} to ${sorted.at(-1)})`;
  };
  at("measured").replaceChildren(
    ...Object.entries(took).map(([call, { browser, ours }]) => row([`${call}Item`, "mono"], [said(browser), "n"], [said(ours), "n"])),
  );
  at("measure").disabled = false;
  document.body.dataset.measured = "yes";
  await areas();
}
at("measure").onclick = () => measure().catch((error) => trouble(String(error)));

await choose(chosen);
document.body.dataset.ready = "yes";
setInterval(areas, 2000);
setInterval(state, 500);
if (location.hash === "#measure") at("measure").click();
