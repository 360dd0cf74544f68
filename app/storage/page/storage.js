// localStorage over thaw_webstorage: an object that a page uses as it uses `localStorage`. Its keys are in the page's
// memory, so that no call waits; changes go to the server in their order, and those of other pages and processes come
// from it, with `storage` events. docs/webstorage.md says what goes over the wire.

/** Bytes of a request that outlives its page; browsers allow 64 KiB of all such at once. */
const KEPT_ALIVE = 30_000;
/** Bytes of changes in one request, about. */
const AT_ONCE = 4 << 20;
/** The longest wait between two tries, in milliseconds. */
const LONGEST_WAIT = 5_000;

/** What is behind each object. */
const areas = new WeakMap();

function areaOf(it) {
  const area = areas.get(it);
  if (area === undefined) throw new TypeError("Illegal invocation");
  return area;
}

function needs(given, wanted, name) {
  if (given < wanted) throw new TypeError(`${name} needs ${wanted} argument${wanted > 1 ? "s" : ""}, ${given} given`);
}

/** What all of the objects have. */
class ThawStorage {
  get length() {
    return areaOf(this).pairs.size;
  }
  key(index) {
    needs(arguments.length, 1, "key");
    return areaOf(this).key(index >>> 0);
  }
  getItem(key) {
    needs(arguments.length, 1, "getItem");
    return areaOf(this).pairs.get(`${key}`) ?? null;
  }
  setItem(key, value) {
    needs(arguments.length, 2, "setItem");
    areaOf(this).set(`${key}`, `${value}`);
  }
  removeItem(key) {
    needs(arguments.length, 1, "removeItem");
    areaOf(this).remove(`${key}`);
  }
  clear() {
    areaOf(this).clear();
  }
}
for (const name of ["length", "key", "getItem", "setItem", "removeItem", "clear"])
  Object.defineProperty(ThawStorage.prototype, name, { enumerable: true });
Object.defineProperty(ThawStorage.prototype, Symbol.toStringTag, { value: "Storage", configurable: true });

/** The object: its keys are properties, but for those that it has already (a legacy platform object of Web IDL). */
function objectOf(area) {
  const isKey = (target, name) => typeof name === "string" && area.pairs.has(name) && !(name in target);
  const object = new Proxy(Object.create(ThawStorage.prototype), {
    get: (target, name, receiver) => (isKey(target, name) ? area.pairs.get(name) : Reflect.get(target, name, receiver)),
    has: (target, name) => isKey(target, name) || Reflect.has(target, name),
    set(target, name, value, receiver) {
      // What all of the objects have is not hidden, and `length` not set: browsers do so.
      if (typeof name !== "string" || receiver !== object || name in target)
        return Reflect.set(target, name, value, receiver);
      area.set(name, `${value}`);
      return true;
    },
    deleteProperty(target, name) {
      if (!isKey(target, name)) return Reflect.deleteProperty(target, name);
      area.remove(name);
      return true;
    },
    defineProperty(target, name, what) {
      if (typeof name !== "string") return Reflect.defineProperty(target, name, what);
      if ("get" in what || "set" in what) return false;
      area.set(name, `${what.value}`);
      return true;
    },
    getOwnPropertyDescriptor: (target, name) =>
      isKey(target, name)
        ? { value: area.pairs.get(name), writable: true, enumerable: true, configurable: true }
        : Reflect.getOwnPropertyDescriptor(target, name),
    ownKeys: (target) => [...[...area.pairs.keys()].filter((name) => isKey(target, name)), ...Reflect.ownKeys(target)],
    preventExtensions: () => false,
  });
  areas.set(object, area);
  return object;
}

function full(limit, wanted) {
  const why = `storage is full: ${limit} bytes may be used, ${wanted} would be`;
  if (typeof QuotaExceededError === "function") return new QuotaExceededError(why, { quota: limit, requested: wanted });
  return new DOMException(why, "QuotaExceededError");
}

const cost = (key, value) => 2 * (key.length + value.length);

/** The keys of an area in this page, and its changes on their way. */
class Area {
  pairs = new Map();
  used = 0;
  quota = 0;
  /** Changes that the server has not confirmed, in their order: `{ number, kind, key, value }`. */
  waiting = [];
  /** The number of the last change, and of the last that is in a request. */
  number = 0;
  sent = 0;
  names = null;
  object = objectOf(this);
  idle = [];

  constructor({ origin, partition = "", base = "", window: page = globalThis, onchange, ontrouble }) {
    this.page = page;
    this.base = base;
    this.id = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
    this.place = new URLSearchParams([["partition", partition], ["origin", origin], ["page", this.id]])
      .toString()
      .replaceAll("+", "%20");
    this.onchange = onchange ?? (() => {});
    this.ontrouble = ontrouble ?? (() => {});
    // What is left when the page goes outlives it, as far as browsers allow.
    page.addEventListener("pagehide", () => this.leave());
    this.loaded = new Promise((done) => (this.isLoaded = done));
    this.listen();
  }

  key(index) {
    this.names ??= [...this.pairs.keys()];
    return this.names[index] ?? null;
  }

  put(key, value) {
    const old = this.pairs.get(key);
    this.used += old === undefined ? cost(key, value) : 2 * (value.length - old.length);
    if (old === undefined) this.names = null;
    this.pairs.set(key, value);
  }

  drop(key) {
    const old = this.pairs.get(key);
    if (old === undefined) return;
    this.used -= cost(key, old);
    this.names = null;
    this.pairs.delete(key);
  }

  empty() {
    this.pairs.clear();
    this.used = 0;
    this.names = null;
  }

  set(key, value) {
    const old = this.pairs.get(key);
    if (old === value) return;
    const wanted = this.used + (old === undefined ? cost(key, value) : 2 * (value.length - old.length));
    if (wanted > this.quota && wanted > this.used) throw full(this.quota, wanted);
    this.put(key, value);
    this.change(1, key, value);
  }

  remove(key) {
    if (!this.pairs.has(key)) return;
    this.drop(key);
    this.change(2, key, "");
  }

  clear() {
    if (this.pairs.size === 0) return;
    this.empty();
    this.change(3, "", "");
  }

  change(kind, key, value) {
    this.number++;
    this.waiting.push({ number: this.number, kind, key, value });
    // All that a script changes before it lets others run goes together.
    if (this.waiting.length === 1 || this.sent === this.number - 1) queueMicrotask(() => this.send());
  }

  /** The changes that follow a number, as many as fit: the last one's number, and what is sent. */
  packed(after, most) {
    const chosen = [];
    let units = 0;
    // Numbers follow each other without a gap.
    for (let at = Math.max(0, after - (this.waiting[0]?.number ?? 0) + 1); at < this.waiting.length; at++) {
      const { kind, key, value } = this.waiting[at];
      const more = kind === 3 ? 1 : kind === 2 ? 3 + key.length : 5 + key.length + value.length;
      if (2 * (units + more) > most && (chosen.length > 0 || most === KEPT_ALIVE)) break;
      chosen.push(this.waiting[at]);
      units += more;
    }
    const body = new Uint8Array(2 * units);
    const view = new DataView(body.buffer);
    let to = 0;
    const unit = (it) => {
      view.setUint16(to, it, true);
      to += 2;
    };
    const text = (it) => {
      unit(it.length & 0xffff);
      unit(it.length >>> 16);
      for (let at = 0; at < it.length; at++) unit(it.charCodeAt(at));
    };
    for (const { kind, key, value } of chosen) {
      unit(kind);
      if (kind < 3) text(key);
      if (kind === 1) text(value);
    }
    return { first: chosen[0]?.number ?? 0, last: chosen.at(-1)?.number ?? after, body };
  }

  post({ first, body }, keepalive) {
    const url = encodeURIComponent(this.page.location?.href ?? "");
    return fetch(`${this.base}api/changes?${this.place}&first=${first}&url=${url}`, { method: "POST", body, keepalive });
  }

  /** One request at a time, so that none overtakes another. */
  async send() {
    if (this.sending) return;
    this.sending = true;
    await this.loaded;
    let wait = 100;
    while (this.waiting.length > 0 && this.sent < this.number) {
      const batch = this.packed(this.sent, AT_ONCE);
      const answer = await this.post(batch, batch.body.length <= KEPT_ALIVE).catch(() => null);
      if (answer?.ok) {
        wait = 100;
        this.sent = Math.max(this.sent, batch.last);
        this.confirmed((await answer.json().catch(() => ({ last: 0 }))).last);
        continue;
      }
      const why = answer === null ? "the server does not answer" : (await answer.text().catch(() => "")).trim();
      this.ontrouble(`${this.waiting.length} changes wait: ${why}`);
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(2 * wait, LONGEST_WAIT);
    }
    this.sending = false;
  }

  /** The library has all changes up to this one. */
  confirmed(last) {
    this.handed = Math.max(this.handed ?? 0, last);
    if (this.handed >= this.number) for (const done of this.idle.splice(0)) done();
  }

  leave() {
    const batch = this.packed(Math.max(this.handed ?? 0, (this.waiting[0]?.number ?? 1) - 1), KEPT_ALIVE);
    // Those before it may be on their way: the server leaves out what it has.
    if (batch.first > 0) this.post(batch, true).catch(() => {});
  }

  listen() {
    this.events = new EventSource(`${this.base}api/events?${this.place}`);
    this.events.onmessage = ({ data }) => this.hear(JSON.parse(data));
    this.events.onerror = () => {
      this.ontrouble("the server does not answer");
      if (this.events.readyState !== EventSource.CLOSED) return;
      setTimeout(() => !this.closed && this.listen(), LONGEST_WAIT);
    };
  }

  /** A change of our own that the others come before: it wins. */
  isOurs(key) {
    return this.waiting.some((it) => it.kind === 3 || it.key === key);
  }

  hear(message) {
    const { say, key, now, why } = message;
    if (say === "all") this.hearAll(message);
    else if (say === "made") this.made(message.last);
    else if (say === "trouble") this.ontrouble(why);
    else if (say === "refused") {
      this.waiting = this.waiting.filter((it) => it.number > message.number);
      if (!this.isOurs(key)) this.become(key, now);
      this.ontrouble(why);
    } else if (say === "changed") {
      if (!this.isOurs(key)) this.become(key, now);
      this.tell(key, message.old, message.new, message.url);
    } else if (say === "cleared") {
      for (const name of [...this.pairs.keys()]) if (!this.isOurs(name)) this.drop(name);
      this.tell(null, null, null, message.url);
    }
    this.onchange(message);
  }

  become(key, value) {
    if (value === null) this.drop(key);
    else this.put(key, value);
  }

  made(last) {
    this.waiting = this.waiting.filter((it) => it.number > last);
    this.confirmed(last);
  }

  /** All keys: at first, and after the connection was lost. Our own changes that are not made yet follow them. */
  hearAll({ pairs, quota, last }) {
    const before = this.isThere ? new Map(this.pairs) : null;
    this.made(last);
    this.quota = quota;
    this.empty();
    for (const [key, value] of pairs) this.put(key, value);
    for (const { kind, key, value } of this.waiting) {
      if (kind === 1) this.put(key, value);
      else if (kind === 2) this.drop(key);
      else this.empty();
    }
    this.isThere = true;
    this.isLoaded();
    if (before === null) return;
    for (const key of new Set([...before.keys(), ...this.pairs.keys()])) {
      const [old, now] = [before.get(key) ?? null, this.pairs.get(key) ?? null];
      if (old !== now) this.tell(key, old, now, "");
    }
  }

  tell(key, oldValue, newValue, url) {
    const event = new this.page.StorageEvent("storage", { key, oldValue, newValue, url });
    // The constructor takes the browser's own storage alone.
    Object.defineProperty(event, "storageArea", { value: this.object, enumerable: true });
    this.page.dispatchEvent(event);
  }
}

/**
 * The storage of an origin, when all its keys are here. Beside it: `pending()`, how many changes the library does not
 * have yet; `flush()`, done when all that was changed is on the medium; `close()`.
 */
export async function open(options) {
  const area = new Area(options);
  await area.loaded;
  const handed = () =>
    (area.handed ?? 0) >= area.number ? Promise.resolve() : new Promise((done) => area.idle.push(done));
  return {
    storage: area.object,
    quota: () => area.quota,
    used: () => area.used,
    pending: () => area.number - (area.handed ?? 0),
    flush: async () => {
      await handed();
      const answer = await fetch(`${area.base}api/flush`, { method: "POST" });
      if (!answer.ok) throw new Error((await answer.text()).trim());
    },
    close: async () => {
      await handed();
      area.closed = true;
      area.events.close();
    },
  };
}
