// Colours that stand for something must be apart for every reader. Simulated after Machado, Oliveira and Fernandes
// (2009), severity 1.

import { describe, expect, test } from "vitest";
import { causeColour, otherColour, RANK_COUNT, rankColour, stateColour, type Theme } from "../../src/draw/palette.ts";

type Triple = readonly [number, number, number];
const VISIONS: Readonly<Record<string, readonly Triple[]>> = {
  usual: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

const linear = (byte: number) => (byte / 255 <= 0.04045 ? byte / 255 / 12.92 : ((byte / 255 + 0.055) / 1.055) ** 2.4);

function lab(rgb: number, vision: readonly Triple[]): Triple {
  const light = [16, 8, 0].map((shift) => linear((rgb >> shift) & 255));
  const [r, g, b] = vision.map((row) =>
    Math.min(1, Math.max(0, row[0] * light[0] + row[1] * light[1] + row[2] * light[2])),
  );
  const [x, y, z] = [
    (0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047,
    0.2126729 * r + 0.7151522 * g + 0.072175 * b,
    (0.0193339 * r + 0.119192 * g + 0.9503041 * b) / 1.08883,
  ];
  const f = (t: number) => (t > 216 / 24389 ? Math.cbrt(t) : ((24389 / 27) * t + 16) / 116);
  return [116 * f(y) - 16, 500 * (f(x) - f(y)), 200 * (f(y) - f(z))];
}

/** The two that are nearest, and how near. */
function nearest(
  colours: readonly number[],
  vision: readonly Triple[],
): { readonly apart: number; readonly pair: string } {
  const seen = colours.map((colour) => lab(colour, vision));
  let found = { apart: Number.POSITIVE_INFINITY, pair: "" };
  for (let one = 0; one < seen.length; one++) {
    for (let other = 0; other < one; other++) {
      const apart = Math.hypot(...seen[one].map((value, axis) => value - seen[other][axis]));
      if (apart < found.apart) found = { apart, pair: `${other} and ${one}` };
    }
  }
  return found;
}

describe.each(["light", "dark"] as const)("colours on a %s ground", (theme: Theme) => {
  const sets: Readonly<Record<string, readonly number[]>> = {
    ranks: [...Array.from({ length: RANK_COUNT }, (_, rank) => rankColour(rank, theme)), otherColour(theme)],
    causes: (["read", "fault", "readahead", "metadata", "write", "unknown"] as const).map((cause) =>
      causeColour(cause, theme),
    ),
    states: (["hot", "app", "boot", "cold"] as const).map((state) => stateColour(state, theme)),
  };
  test.each(Object.keys(VISIONS))("no two are alike: %s", (vision) => {
    for (const [name, colours] of Object.entries(sets)) {
      const { apart, pair } = nearest(colours, VISIONS[vision]);
      expect(apart, `${name}: ${pair}`).toBeGreaterThan(20);
    }
  });
});
