// When pictures were drawn, and how long that took: figures for claims/viewer.

/** The last pictures: when each was done, and how long that took, in milliseconds since the page was opened. */
export const drawings: { readonly plot: string; readonly done: number; readonly took: number }[] = [];

/** Notes a picture that is done now and was `began` at that time of `performance.now()`. */
export function timed(plot: string, began: number): void {
  const done = performance.now();
  drawings.push({ plot, done, took: done - began });
  if (drawings.length > 4000) drawings.splice(0, 2000);
}
