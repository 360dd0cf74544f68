// Event columns: how a million requests travel inside one HTML file, and back into typed arrays.
// Pure: bytes in, arrays out. The writer is app/view/src/columns.rs; docs/view-format.md draws the bytes.

import type { Coding, PackedColumn, PackedTable } from "../types/events.ts";

/** The bytes of a base64 text; by the browser itself where it can. */
export function fromBase64(text: string): Uint8Array {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array }).fromBase64;
  if (native !== undefined) return native(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Undoes deflate-raw with the browser's own decompressor. */
export async function inflate(bytes: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The longest varint: one that 64 bits fill. */
const LONGEST = 10;

/** The same with nothing behind its end, which ends a number: so that nobody has to look for the end in each byte. */
function withEnd(bytes: Uint8Array): Uint8Array {
  const longer = new Uint8Array(bytes.length + LONGEST);
  longer.set(bytes);
  return longer;
}

/**
 * Decodes `count` varints. Values may go up to 2^53: what fits into 28 bits, which is nearly all, is put together by
 * shifts, the rest in floats, so that nothing wraps.
 * Throws if the stream is shorter or longer than `count` numbers: a damaged file must not be half drawn.
 */
export function decodeVarints(bytes: Uint8Array, count: number, coding: Coding, unit = 1): Float64Array {
  const out = new Float64Array(count);
  const from = withEnd(bytes);
  const end = bytes.length;
  const signed = coding !== "plain";
  const keep = coding === "delta" ? 1 : 0;
  let at = 0;
  let previous = 0;
  for (let i = 0; i < count; i++) {
    // Most numbers are one byte, and nearly all others two: so this is written out.
    let value = from[at++];
    if (value >= 0x80) {
      let byte = from[at++];
      value = (value & 0x7f) | ((byte & 0x7f) << 7);
      if (byte >= 0x80) {
        byte = from[at++];
        value |= (byte & 0x7f) << 14;
        if (byte >= 0x80) {
          byte = from[at++];
          value |= (byte & 0x7f) << 21;
          if (byte >= 0x80) {
            let large = value;
            for (let scale = 2 ** 28; byte >= 0x80 && at < from.length; scale *= 128) {
              byte = from[at++];
              large += (byte & 0x7f) * scale;
            }
            if (at > end) throw new Error(`column ends after ${i} of ${count} numbers`);
            // Zigzag: even numbers are 0, 1, 2, ..., odd ones -1, -2, ...
            if (signed) large = large % 2 === 0 ? large / 2 : -(large + 1) / 2;
            previous = previous * keep + large;
            out[i] = previous * unit;
            continue;
          }
        }
      }
    }
    if (at > end) throw new Error(`column ends after ${i} of ${count} numbers`);
    previous = previous * keep + (signed ? (value >>> 1) ^ -(value & 1) : value);
    out[i] = previous * unit;
  }
  if (at !== end) throw new Error(`column holds more than ${count} numbers`);
  return out;
}

/**
 * The same for a plain column of numbers below 2^32: indexes and lengths in units. What is made takes half the memory.
 */
export function decodeSmall(bytes: Uint8Array, count: number): Uint32Array {
  const out = new Uint32Array(count);
  const end = bytes.length;
  if (end === count) {
    // One byte for each number, as columns with few different values have: there is nothing to put together.
    let high = 0;
    for (let i = 0; i < count; i++) high |= out[i] = bytes[i];
    if (high < 0x80) return out;
  }
  const from = withEnd(bytes);
  let at = 0;
  for (let i = 0; i < count; i++) {
    let value = from[at++];
    if (value >= 0x80) {
      let byte = from[at++];
      value = (value & 0x7f) | ((byte & 0x7f) << 7);
      for (let shift = 14; byte >= 0x80 && at < from.length; shift += 7) {
        byte = from[at++];
        value |= (byte & 0x7f) << shift;
      }
    }
    if (at > end) throw new Error(`column ends after ${i} of ${count} numbers`);
    out[i] = value;
  }
  if (at !== end) throw new Error(`column holds more than ${count} numbers`);
  return out;
}

/** Columns of numbers that index something, by name. Throws if one is missing or no such column. */
export async function unpackIndexes<Name extends string>(
  table: PackedTable,
  names: readonly Name[],
): Promise<Record<Name, Uint32Array>> {
  const columns = await Promise.all(
    names.map(async (name) => {
      const column = table.columns[name];
      if (column === undefined || column.coding !== "plain") throw new Error(`the page has no plain column "${name}"`);
      const small = decodeSmall(await inflate(fromBase64(column.data)), table.count);
      if (column.unit !== 1) for (let i = 0; i < small.length; i++) small[i] *= column.unit;
      return small;
    }),
  );
  return Object.fromEntries(names.map((name, i) => [name, columns[i]])) as Record<Name, Uint32Array>;
}

/** `values` at `numbers`; `Float64Array.from` with a function takes ten times as long. */
export function gather<Values extends Float64Array | Uint32Array | Uint8Array>(
  values: Values,
  numbers: ArrayLike<number>,
): Values {
  const out = new (values.constructor as new (length: number) => Values)(numbers.length);
  for (let k = 0; k < numbers.length; k++) out[k] = values[numbers[k]];
  return out;
}

/** A column of the page as numbers. */
export async function unpack(column: PackedColumn, count: number): Promise<Float64Array> {
  return decodeVarints(await inflate(fromBase64(column.data)), count, column.coding, column.unit);
}

/** All columns of a table, by name. Throws if a wanted one is missing. */
export async function unpackTable<Name extends string>(
  table: PackedTable,
  names: readonly Name[],
): Promise<Record<Name, Float64Array>> {
  const columns = await Promise.all(
    names.map((name) => {
      const column = table.columns[name];
      if (column === undefined) throw new Error(`the page has no column "${name}"`);
      return unpack(column, table.count);
    }),
  );
  return Object.fromEntries(names.map((name, i) => [name, columns[i]])) as Record<Name, Float64Array>;
}

/** First index whose value is not below `wanted`, in a sorted array. */
export function lowerBound(sorted: ArrayLike<number>, wanted: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Digits of a sort: 11 bits, of two words of 22. */
const [DIGIT, WORD] = [11, 22];

/**
 * `numbers` in the order of `keys` (whole, 0 .. 2^53; one for each of them), those of the same key in the order given:
 * digit by digit from the lowest, which is several times as fast as comparing.
 */
export function sortedBy(numbers: Uint32Array, keys: Float64Array): Uint32Array {
  const count = numbers.length;
  const [low, high] = [new Uint32Array(count), new Uint32Array(count)];
  let most = 0;
  for (let k = 0; k < count; k++) {
    const key = keys[k];
    high[k] = key / 2 ** WORD;
    low[k] = key - high[k] * 2 ** WORD;
    if (key > most) most = key;
  }
  let places = new Uint32Array(count);
  for (let k = 0; k < count; k++) places[k] = k;
  let other = new Uint32Array(count);
  const next = new Uint32Array((1 << DIGIT) + 1);
  for (let bit = 0; most >= 2 ** bit; bit += DIGIT) {
    const word = bit < WORD ? low : high;
    const shift = bit < WORD ? bit : bit - WORD;
    const mask = (1 << DIGIT) - 1;
    next.fill(0);
    for (let k = 0; k < count; k++) next[((word[k] >>> shift) & mask) + 1]++;
    for (let digit = 0; digit <= mask; digit++) next[digit + 1] += next[digit];
    for (let k = 0; k < count; k++) {
      const place = places[k];
      other[next[(word[place] >>> shift) & mask]++] = place;
    }
    [places, other] = [other, places];
  }
  return gather(numbers, places);
}
